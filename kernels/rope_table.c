#include "kernels/rope_table.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

/* ln 2, high part with 32 zero bits at its end: exact times any exponent. */
#define ROPE_LN2_HIGH 0x1.62e42fee00000p-1
#define ROPE_LN2_LOW 0x1.a39ef35793c76p-33
/* pi/2 in three parts; products of the first two with integers below 2^21 are exact. */
#define ROPE_HALF_PI_1 0x1.921fb544p+0
#define ROPE_HALF_PI_2 0x1.0b4611a6p-34
#define ROPE_HALF_PI_3 0x1.3198a2e037073p-69

/* x = m * 2^e with m in [sqrt(1/2), sqrt(2)); x positive, normal. */
static double rope_table_split(double x, int *exponent) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int e = (int)(bits >> 52) - 1023;
    bits = (bits & 0x000FFFFFFFFFFFFFu) | 0x3FF0000000000000u;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 0x1.6a09e667f3bcdp+0) {
        m = m * 0.5;
        e++;
    }
    *exponent = e;
    return m;
}

/* ln x = e ln 2 + 2 atanh(s), s = (m - 1)/(m + 1), |s| < 0.172: the odd series to s^21. */
static double rope_table_log(double x) {
    int e;
    double m = rope_table_split(x, &e);
    double s = (m - 1.0) / (m + 1.0), square = s * s, sum = 0.0;
    for (int odd = 23; odd >= 3; odd -= 2) {
        sum = (sum + 1.0 / odd) * square;
    }
    return (double)e * ROPE_LN2_HIGH + (2.0 * (s + s * sum) + (double)e * ROPE_LN2_LOW);
}

/* e^x for -700 < x <= 0: x = n ln 2 + r, Taylor series to r^14 / 14!. */
static double rope_table_exp(double x) {
    double n = rint(x * 0x1.71547652b82fep+0);
    double r = (x - n * ROPE_LN2_HIGH) - n * ROPE_LN2_LOW, sum = 1.0;
    for (int i = 14; i >= 1; i--) {
        sum = 1.0 + sum * r / i;
    }
    uint64_t bits = (uint64_t)(1023 + (int64_t)n) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return sum * power;
}

/* Series of sine and cosine on [-pi/4, pi/4]; terms beyond the last are below 2^-60. */
static double rope_table_sin_series(double r) {
    double square = r * r, sum = 1.0;
    for (int i = 18; i >= 2; i -= 2) {
        sum = 1.0 - sum * square / (double)(i * (i + 1));
    }
    return r * sum;
}

static double rope_table_cos_series(double r) {
    double square = r * r, sum = 1.0;
    for (int i = 19; i >= 1; i -= 2) {
        sum = 1.0 - sum * square / (double)(i * (i + 1));
    }
    return sum;
}

/* 0 <= angle <= 2^20: the quarter turn n counts below 2^20. */
static void rope_table_angle(double angle, double *cosine, double *sine) {
    double n = rint(angle * 0x1.45f306dc9c883p-1);
    double r = ((angle - n * ROPE_HALF_PI_1) - n * ROPE_HALF_PI_2) - n * ROPE_HALF_PI_3;
    double c = rope_table_cos_series(r), s = rope_table_sin_series(r);
    switch ((uint32_t)n & 3u) {
    case 0: *cosine = c, *sine = s; break;
    case 1: *cosine = -s, *sine = c; break;
    case 2: *cosine = -c, *sine = -s; break;
    default: *cosine = s, *sine = -c; break;
    }
}

void rope_table_fill(float *cos_table, float *sin_table, uint32_t positions, uint32_t rotary_dims,
                     double theta) {
    assert(positions <= ROPE_TABLE_POSITIONS_MAX && rotary_dims % 2 == 0);
    assert(theta >= 1.0 && theta <= 0x1p+512);
    uint32_t half = rotary_dims / 2;
    double log_theta = rope_table_log(theta);
    for (uint32_t i = 0; i < half; i++) {
        double frequency = rope_table_exp(-(2.0 * i / rotary_dims) * log_theta);
        for (uint32_t p = 0; p < positions; p++) {
            double cosine, sine;
            rope_table_angle((double)p * frequency, &cosine, &sine);
            cos_table[(size_t)p * half + i] = (float)cosine;
            sin_table[(size_t)p * half + i] = (float)sine;
        }
    }
}
