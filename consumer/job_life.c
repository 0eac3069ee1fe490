#include "consumer/job_life.h"

/* What an event does in a state; zero: it cannot happen there. */
struct job_life_step {
    enum job_life_action action;
    enum job_life_state next;
    enum job_life_action then; /* next is STOPPING */
};

#define STAY(state) \
    { JOB_LIFE_NOTHING, state, 0 }
#define STOP(then_do) \
    { JOB_LIFE_DO_STOP, JOB_LIFE_STOPPING, then_do }

/* The state in which a life goes on when an action was put off until the engine had stopped. */
static const enum job_life_state job_life_after[JOB_LIFE_ACTION_COUNT] = {
    [JOB_LIFE_DO_CLAIM] = JOB_LIFE_CLAIMING,
    [JOB_LIFE_DO_WAIT_AGAIN] = JOB_LIFE_WAITING,
    [JOB_LIFE_DO_FAIL_AND_LETTER] = JOB_LIFE_SEALING,
    [JOB_LIFE_DO_LETTER] = JOB_LIFE_PUBLISHING,
    [JOB_LIFE_DO_PUBLISH_SEALED] = JOB_LIFE_PUBLISHING,
    [JOB_LIFE_DO_SETTLE_AS_DONE] = JOB_LIFE_GONE,
    [JOB_LIFE_DO_GIVE_BACK] = JOB_LIFE_GONE,
    [JOB_LIFE_DO_FORGET] = JOB_LIFE_GONE,
};

/* What a late answer to the claim does to a job that has not begun. */
#define LATE_BEFORE_THE_ENGINE                                                   \
    [JOB_LIFE_IS_DONE] = {JOB_LIFE_DO_SETTLE_AS_DONE, JOB_LIFE_GONE, 0},         \
    [JOB_LIFE_IS_SEALED] = {JOB_LIFE_DO_PUBLISH_SEALED, JOB_LIFE_PUBLISHING, 0}, \
    [JOB_LIFE_IS_POISON] = {JOB_LIFE_DO_FAIL_AND_LETTER, JOB_LIFE_SEALING, 0},   \
    [JOB_LIFE_IS_CONFLICT] = {JOB_LIFE_DO_LETTER, JOB_LIFE_PUBLISHING, 0}

/* What else may come over a job that has not begun. */
#define OUTSIDE_BEFORE_THE_ENGINE(state)                                                          \
    [JOB_LIFE_LOSE] = {JOB_LIFE_DO_CLAIM, JOB_LIFE_CLAIMING, 0},                                  \
    [JOB_LIFE_CALL_OFF] = {JOB_LIFE_DO_END_UNRUN, JOB_LIFE_SEALING, 0},                           \
    [JOB_LIFE_EXPIRE] = {JOB_LIFE_DO_END_UNRUN, JOB_LIFE_SEALING, 0},                             \
    [JOB_LIFE_ORPHAN] = {JOB_LIFE_DO_GIVE_BACK, JOB_LIFE_GONE, 0}, [JOB_LIFE_JOIN] = STAY(state), \
    [JOB_LIFE_GIVE_UP] = {JOB_LIFE_DO_GIVE_BACK, JOB_LIFE_GONE, 0}

/* What admitted and running jobs have in common. */
#define IN_THE_ENGINE(state)                                                               \
    [JOB_LIFE_IS_DONE] = STOP(JOB_LIFE_DO_SETTLE_AS_DONE),                                 \
    [JOB_LIFE_IS_SEALED] = STOP(JOB_LIFE_DO_PUBLISH_SEALED),                               \
    [JOB_LIFE_IS_POISON] = STOP(JOB_LIFE_DO_FAIL_AND_LETTER),                              \
    [JOB_LIFE_IS_CONFLICT] = STOP(JOB_LIFE_DO_LETTER),                                     \
    [JOB_LIFE_END] = {JOB_LIFE_DO_SEAL, JOB_LIFE_SEALING, 0},                              \
    [JOB_LIFE_STOPPED] = {JOB_LIFE_DO_SEAL, JOB_LIFE_SEALING, 0},                          \
    [JOB_LIFE_BREAK] = {JOB_LIFE_DO_REST, JOB_LIFE_RESTING, 0},                            \
    [JOB_LIFE_ENGINE_GONE] = {JOB_LIFE_DO_GIVE_BACK, JOB_LIFE_GONE, 0},                    \
    [JOB_LIFE_LOSE] = STOP(JOB_LIFE_DO_CLAIM),                                             \
    [JOB_LIFE_CALL_OFF] = {JOB_LIFE_DO_CALL_OFF, state, 0}, [JOB_LIFE_JOIN] = STAY(state), \
    [JOB_LIFE_GIVE_UP] = STOP(JOB_LIFE_DO_GIVE_BACK)

/* Too late for all of these: what is sealed goes its way. */
#define ON_THE_WAY_OUT(state)                                                 \
    [JOB_LIFE_IS_DONE] = STAY(state), [JOB_LIFE_IS_SEALED] = STAY(state),     \
    [JOB_LIFE_IS_POISON] = STAY(state), [JOB_LIFE_IS_CONFLICT] = STAY(state), \
    [JOB_LIFE_LOSE] = STAY(state), [JOB_LIFE_CALL_OFF] = STAY(state),         \
    [JOB_LIFE_ORPHAN] = STAY(state), [JOB_LIFE_JOIN] = STAY(state),           \
    [JOB_LIFE_GIVE_UP] = STAY(state)

static const struct job_life_step job_life_table[JOB_LIFE_STATE_COUNT][JOB_LIFE_EVENT_COUNT] = {
    [JOB_LIFE_CLAIMING] =
        {LATE_BEFORE_THE_ENGINE, /* in time, here */
         [JOB_LIFE_IS_NEW] = {JOB_LIFE_DO_WAIT, JOB_LIFE_WAITING, 0},
         [JOB_LIFE_IS_MALFORMED] = {JOB_LIFE_DO_FAIL_AND_LETTER, JOB_LIFE_SEALING, 0},
         [JOB_LIFE_IS_HELD_HERE] = {JOB_LIFE_DO_JOIN, JOB_LIFE_GONE, 0},
         [JOB_LIFE_IS_HELD_ELSEWHERE] = {JOB_LIFE_DO_PARK, JOB_LIFE_PARKED, 0},
         [JOB_LIFE_LOSE] = STAY(JOB_LIFE_CLAIMING), /* of the claim before this one */
         [JOB_LIFE_CALL_OFF] = STAY(JOB_LIFE_CLAIMING),
         [JOB_LIFE_ORPHAN] = STAY(JOB_LIFE_CLAIMING), /* the claim's answer is awaited */
         [JOB_LIFE_GIVE_UP] = STAY(JOB_LIFE_CLAIMING)},
    [JOB_LIFE_PARKED] = {[JOB_LIFE_DUE] = {JOB_LIFE_DO_CLAIM, JOB_LIFE_CLAIMING, 0},
                         [JOB_LIFE_IS_DONE] = STAY(JOB_LIFE_PARKED),
                         [JOB_LIFE_IS_SEALED] = STAY(JOB_LIFE_PARKED),
                         [JOB_LIFE_IS_POISON] = STAY(JOB_LIFE_PARKED),
                         [JOB_LIFE_IS_CONFLICT] = STAY(JOB_LIFE_PARKED),
                         [JOB_LIFE_LOSE] = STAY(JOB_LIFE_PARKED),
                         [JOB_LIFE_CALL_OFF] = STAY(JOB_LIFE_PARKED),
                         [JOB_LIFE_ORPHAN] = {JOB_LIFE_DO_FORGET, JOB_LIFE_GONE, 0},
                         [JOB_LIFE_GIVE_UP] = {JOB_LIFE_DO_FORGET, JOB_LIFE_GONE, 0}},
    [JOB_LIFE_WAITING] = {LATE_BEFORE_THE_ENGINE, OUTSIDE_BEFORE_THE_ENGINE(JOB_LIFE_WAITING),
                          [JOB_LIFE_ADMIT] = {JOB_LIFE_NOTHING, JOB_LIFE_ADMITTED, 0},
                          [JOB_LIFE_REJECT] = {JOB_LIFE_DO_FAIL, JOB_LIFE_SEALING, 0}},
    [JOB_LIFE_RESTING] = {LATE_BEFORE_THE_ENGINE, OUTSIDE_BEFORE_THE_ENGINE(JOB_LIFE_RESTING),
                          [JOB_LIFE_DUE] = {JOB_LIFE_DO_WAIT_AGAIN, JOB_LIFE_WAITING, 0}},
    [JOB_LIFE_ADMITTED] = {IN_THE_ENGINE(JOB_LIFE_ADMITTED),
                           [JOB_LIFE_START] = {JOB_LIFE_DO_NOTE_START, JOB_LIFE_RUNNING, 0},
                           [JOB_LIFE_EXPIRE] = {JOB_LIFE_DO_END_UNRUN, JOB_LIFE_SEALING, 0},
                           [JOB_LIFE_ORPHAN] = STOP(JOB_LIFE_DO_GIVE_BACK)},
    [JOB_LIFE_RUNNING] = {IN_THE_ENGINE(JOB_LIFE_RUNNING), [JOB_LIFE_ORPHAN] =
                                                               STAY(JOB_LIFE_RUNNING)},
    [JOB_LIFE_STOPPING] = {ON_THE_WAY_OUT(JOB_LIFE_STOPPING), /* END and its like: below */
                           [JOB_LIFE_START] = STAY(JOB_LIFE_STOPPING)},
    [JOB_LIFE_SEALING] = {ON_THE_WAY_OUT(JOB_LIFE_SEALING),
                          [JOB_LIFE_SEAL_HOLDS] = {JOB_LIFE_DO_PUBLISH, JOB_LIFE_PUBLISHING, 0},
                          [JOB_LIFE_SEAL_OLDER] = {JOB_LIFE_DO_PUBLISH_SEALED, JOB_LIFE_PUBLISHING,
                                                   0},
                          [JOB_LIFE_SEAL_TERMINAL] = {JOB_LIFE_DO_SETTLE_AS_DONE, JOB_LIFE_GONE, 0},
                          [JOB_LIFE_SEAL_CONFLICT] = {JOB_LIFE_DO_LETTER, JOB_LIFE_PUBLISHING, 0}},
    [JOB_LIFE_PUBLISHING] = {ON_THE_WAY_OUT(JOB_LIFE_PUBLISHING),
                             [JOB_LIFE_ACKNOWLEDGE] = {JOB_LIFE_DO_FINISH, JOB_LIFE_FINISHING, 0},
                             [JOB_LIFE_ACKNOWLEDGE_LETTER] = {JOB_LIFE_DO_SETTLE, JOB_LIFE_GONE,
                                                              0}},
    [JOB_LIFE_FINISHING] =
        {ON_THE_WAY_OUT(JOB_LIFE_FINISHING), [JOB_LIFE_WRITE] = {JOB_LIFE_DO_SETTLE, JOB_LIFE_GONE,
                                                                 0}},
};

/* An orphan begins nothing. Its claim goes back for another to take; without a claim it is
 * forgotten. What is sealed goes its way. */
static struct job_life_step job_life_of_orphan(enum job_life_state from,
                                               struct job_life_step step) {
    switch (step.action) {
    case JOB_LIFE_DO_PUBLISH_SEALED:
        if (from == JOB_LIFE_SEALING) {
            return step;
        }
        break;
    case JOB_LIFE_DO_WAIT:
    case JOB_LIFE_DO_WAIT_AGAIN:
    case JOB_LIFE_DO_REST:
    case JOB_LIFE_DO_FAIL_AND_LETTER: break;
    case JOB_LIFE_DO_CLAIM:
    case JOB_LIFE_DO_PARK:
    case JOB_LIFE_DO_JOIN:
    case JOB_LIFE_DO_LETTER: return (struct job_life_step){JOB_LIFE_DO_FORGET, JOB_LIFE_GONE, 0};
    default: return step;
    }
    return (struct job_life_step){JOB_LIFE_DO_GIVE_BACK, JOB_LIFE_GONE, 0};
}

/* The end in the engine of a job that was to be stopped there. One that ended by itself before it
 * could be stopped, and was only to be given back, is as good as any. */
static struct job_life_step job_life_stopped(const struct job_life *life,
                                             enum job_life_event event) {
    bool is_to_be_run = life->then == JOB_LIFE_DO_GIVE_BACK || life->then == JOB_LIFE_DO_WAIT_AGAIN;
    if (event == JOB_LIFE_END && is_to_be_run) {
        return (struct job_life_step){JOB_LIFE_DO_SEAL, JOB_LIFE_SEALING, 0};
    }
    return (struct job_life_step){life->then, job_life_after[life->then], 0};
}

static bool job_life_is_end(enum job_life_event event) {
    return event == JOB_LIFE_END || event == JOB_LIFE_STOPPED || event == JOB_LIFE_BREAK ||
           event == JOB_LIFE_ENGINE_GONE;
}

enum job_life_action job_life_take(struct job_life *life, enum job_life_event event) {
    enum job_life_state from = life->state;
    struct job_life_step step = from == JOB_LIFE_STOPPING && job_life_is_end(event)
                                    ? job_life_stopped(life, event)
                                    : job_life_table[from][event];
    if (step.action == JOB_LIFE_IMPOSSIBLE) {
        return JOB_LIFE_IMPOSSIBLE;
    }
    life->is_orphan = (life->is_orphan || event == JOB_LIFE_ORPHAN) && event != JOB_LIFE_JOIN;
    if (from == JOB_LIFE_STOPPING && event == JOB_LIFE_JOIN &&
        life->then == JOB_LIFE_DO_GIVE_BACK) {
        life->then = JOB_LIFE_DO_WAIT_AGAIN;
    }
    if (life->is_orphan) {
        step = job_life_of_orphan(from, step);
    }
    life->state = step.next;
    if (step.action == JOB_LIFE_DO_STOP) {
        life->then = step.then;
    }
    return step.action;
}

bool job_life_is_in_engine(const struct job_life *life) {
    return life->state == JOB_LIFE_ADMITTED || life->state == JOB_LIFE_RUNNING ||
           life->state == JOB_LIFE_STOPPING;
}

bool job_life_needs_lease(const struct job_life *life) {
    return life->state != JOB_LIFE_CLAIMING && life->state != JOB_LIFE_PARKED &&
           life->state != JOB_LIFE_GONE;
}
