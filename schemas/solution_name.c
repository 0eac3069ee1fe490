#include "schemas/solution_name.h"

#include <string.h>

struct name_of_section {
    enum solution_section section;
    const char *loose; /* names, as folded, each between blanks */
    const char *firm;
};

/* Folded: lower case, half width, without blanks and hyphens. */
static const struct name_of_section name_table[] = {
    {SOLUTION_ANALYSIS,
     " 解法 方法 算法 算法步骤 解题步骤 步骤 解题方法 直觉 关键观察 思路说明 思考过程 解题过程 algorithm "
     "intuition steps method strategy keyobservation keyinsight insight explanation overview "
     "thoughtprocess ",
     " 思路分析 思路 解题思路 算法思路 题解 思路解析 思路讲解 题目分析 题目解析 解题分析 算法分析 "
     "分析 解析 算法思想 核心思路 核心思想 基本思路 approach idea analysis keyidea mainidea "
     "coreidea solutionidea solutionapproach solutionanalysis problemanalysis approachanalysis "
     "theidea theapproach "},
    {SOLUTION_TIME, " 时间 time runtime runningtime ", " 时间复杂度 timecomplexity "},
    {SOLUTION_SPACE, " 空间 内存 space memory auxiliaryspace ",
     " 空间复杂度 spacecomplexity memorycomplexity "},
    {SOLUTION_COMPLEXITY, "  ",
     " 复杂度 复杂度分析 时空复杂度 算法复杂度 时间空间复杂度 complexity complexities "
     "complexityanalysis timeandspacecomplexities complexityofthesolution "},
    {SOLUTION_CODE, " 实现 程序 program ",
     " 代码示例 参考代码 代码 示例代码 代码实现 实现代码 完整代码 源代码 源码 参考程序 参考实现 "
     "参考答案 代码参考 最终代码 code solution codeexample examplecode samplecode referencecode "
     "sourcecode implementation codeimplementation referenceimplementation solutioncode "
     "codesolution fullcode completecode finalcode finalsolution referencesolution thecode "},
    {SOLUTION_PITFALLS,
     " 边界情况 边界条件 边界 注意 注意事项 注意点 特殊情况 特殊用例 edgecase cornercases "
     "boundaryconditions notes ",
     " 易错点 易错点提醒 易错点总结 易错 易错提醒 常见错误 常见陷阱 陷阱 坑点 pitfalls pitfall "
     "edgecases commonpitfalls commonmistakes gotchas potentialpitfalls edgecasestoconsider "
     "importantedgecases possiblepitfalls "},
};

static const char name_languages[] =
    " python3 python c++ cpp javascript java golang go c rust typescript c# csharp kotlin swift "
    "ruby php scala js ";

static const char *const name_joints[] = {"以及", "与", "和", "及", "/", "&", "、", "and"};

static bool name_is_listed(const char *list, const char *key, size_t bytes) {
    char word[SOLUTION_NAME_BYTES_MAX + 3];
    word[0] = ' ';
    memcpy(word + 1, key, bytes);
    word[bytes + 1] = ' ';
    word[bytes + 2] = '\0';
    return bytes > 0 && strstr(list, word) != NULL;
}

static struct solution_name_match name_match_word(const char *key, size_t bytes) {
    for (size_t i = 0; i < sizeof name_table / sizeof name_table[0]; i++) {
        const struct name_of_section *name = &name_table[i];
        if (name_is_listed(name->firm, key, bytes)) {
            return (struct solution_name_match){name->section, false};
        }
        if (name_is_listed(name->loose, key, bytes)) {
            return (struct solution_name_match){name->section, true};
        }
    }
    return (struct solution_name_match){SOLUTION_NONE, false};
}

static bool name_cut_end(const char *key, size_t *bytes, const char *end) {
    size_t end_bytes = strlen(end);
    if (*bytes <= end_bytes || memcmp(key + *bytes - end_bytes, end, end_bytes) != 0) {
        return false;
    }
    *bytes -= end_bytes;
    return true;
}

/* `Time complexity analysis`. */
static struct solution_name_match name_match_analysis(const char *key, size_t bytes) {
    struct solution_name_match match = {SOLUTION_NONE, false};
    if (name_cut_end(key, &bytes, "分析") || name_cut_end(key, &bytes, "analysis")) {
        match = name_match_word(key, bytes);
    }
    bool is_complexity = match.section == SOLUTION_TIME || match.section == SOLUTION_SPACE ||
                         match.section == SOLUTION_COMPLEXITY;
    return is_complexity ? match : (struct solution_name_match){SOLUTION_NONE, false};
}

/* `Python code`, `Code in C++`, `Java 代码`. */
static bool name_is_code_of_language(const char *key, size_t bytes) {
    const char *at = name_languages + 1;
    while (*at != '\0') {
        size_t word_bytes = (size_t)(strchr(at, ' ') - at);
        if (bytes > word_bytes) {
            size_t left = bytes - word_bytes;
            bool leads = memcmp(key, at, word_bytes) == 0;
            bool ends = memcmp(key + left, at, word_bytes) == 0;
            if (leads && name_match_word(key + word_bytes, left).section == SOLUTION_CODE) {
                return true;
            }
            if (ends) {
                (void)name_cut_end(key, &left, "in");
                if (name_match_word(key, left).section == SOLUTION_CODE) {
                    return true;
                }
            }
        }
        at += word_bytes + 1;
    }
    return false;
}

/* `Time and space complexity`, `易错点与边界情况`: names of one section, or of both complexities. */
static struct solution_name_match name_match_pair(const char *key, size_t bytes) {
    struct solution_name_match none = {SOLUTION_NONE, false};
    for (size_t i = 0; i < sizeof name_joints / sizeof name_joints[0]; i++) {
        size_t joint_bytes = strlen(name_joints[i]);
        const char *joint = memmem(key, bytes, name_joints[i], joint_bytes);
        if (joint == NULL) {
            continue;
        }
        size_t first_bytes = (size_t)(joint - key);
        const char *second_key = joint + joint_bytes;
        size_t second_bytes = bytes - first_bytes - joint_bytes;
        struct solution_name_match first = name_match_word(key, first_bytes);
        struct solution_name_match second = name_match_word(second_key, second_bytes);
        if (second.section == SOLUTION_NONE) {
            second = name_match_analysis(second_key, second_bytes);
        }
        bool are_both = (first.section == SOLUTION_TIME && second.section == SOLUTION_SPACE) ||
                        (first.section == SOLUTION_SPACE && second.section == SOLUTION_TIME);
        if (are_both) {
            return (struct solution_name_match){SOLUTION_COMPLEXITY, false};
        }
        if (first.section == second.section && first.section != SOLUTION_NONE) {
            return (struct solution_name_match){first.section, first.is_loose && second.is_loose};
        }
    }
    return none;
}

/* `Approach 2`, `思路一`. */
static struct solution_name_match name_match_numbered(const char *key, size_t bytes) {
    static const char *const numbers[] = {"1", "2", "3", "4", "一", "二", "三", "四"};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        size_t name_bytes = bytes;
        if (name_cut_end(key, &name_bytes, numbers[i])) {
            return (struct solution_name_match){name_match_word(key, name_bytes).section, true};
        }
    }
    return (struct solution_name_match){SOLUTION_NONE, false};
}

struct solution_name_match solution_name_match(const char *key, size_t bytes) {
    (void)name_cut_end(key, &bytes, "如下"); /* the code as follows */
    struct solution_name_match match = name_match_word(key, bytes);
    if (match.section == SOLUTION_NONE) {
        match = name_match_analysis(key, bytes);
    }
    if (match.section == SOLUTION_NONE && name_is_code_of_language(key, bytes)) {
        match.section = SOLUTION_CODE;
    }
    if (match.section == SOLUTION_NONE) {
        match = name_match_pair(key, bytes);
    }
    return match.section == SOLUTION_NONE ? name_match_numbered(key, bytes) : match;
}
