/* One label's arithmetic over the n rows of a cluster; step.py says the same in NumPy, for where there is no compiler.

   With V the rows of earlier updates and l = V[:, j]: r = (k(X, x_j) - l'V) / s, s = sqrt(var_j + noise),
   mean += r (y - mean_j) / s, var -= r^2. */

#include <math.h>

#define LEAST -80.0 /* as in gp.py: below e^-80 nothing is near anyway */

#define DEFINE_ADD(NAME, REAL, EXP)                                                                             \
    void NAME(long n, long j, const REAL *d2, double decay, double amplitude, double noise, double y,           \
              double *mean, double *variance, long blocks, const REAL *const *block, const long *filled, REAL *r) \
    {                                                                                                           \
        for (long i = 0; i < n; i++) {                                                                          \
            REAL exponent = (REAL)decay * d2[i];                                                                \
            r[i] = (REAL)amplitude * EXP(exponent < (REAL)LEAST ? (REAL)LEAST : exponent);                      \
        }                                                                                                       \
        for (long b = 0; b < blocks; b++)                                                                       \
            for (long t = 0; t < filled[b]; t++) {                                                              \
                const REAL *v = block[b] + t * n, l = v[j];                                                     \
                for (long i = 0; i < n; i++) r[i] -= l * v[i];                                                  \
            }                                                                                                   \
        const double s = sqrt(fmax(variance[j], 0.0) + noise), gain = (y - mean[j]) / s;                        \
        const REAL share = (REAL)(1.0 / s);                                                                     \
        for (long i = 0; i < n; i++) {                                                                          \
            r[i] *= share;                                                                                      \
            mean[i] += r[i] * gain;                                                                             \
            const double left = variance[i] - (double)r[i] * r[i];                                              \
            variance[i] = left > 0.0 ? left : 0.0;                                                              \
        }                                                                                                       \
    }

DEFINE_ADD(add_float, float, expf)
DEFINE_ADD(add_double, double, exp)

/* argmin |mu - threshold| / sd over the rows not taken, with the truncated normal's moments (truncnorm.py, `_middle`);
   -1 where a row is of a kind that needs truncnorm's care. */
long best(long n, const double *mean, const double *variance, const double *confidence, const unsigned char *taken,
          double threshold, double *score)
{
    long least = 0;
    for (long i = 0; i < n; i++) {
        if (taken[i]) {
            score[i] = INFINITY;
        } else {
            const double m = confidence[i] + mean[i], s = sqrt(variance[i]), x = m < 0.5 ? m : 1.0 - m;
            if (!(s >= 1e-9 && s <= 10.0 && x >= -6.0 * s)) return -1;
            const double a = x / s, b = (x - 1.0) / s;
            const double scale = 0.3989422804014327 / (0.5 * (erfc(-a * M_SQRT1_2) - erfc(-b * M_SQRT1_2)));
            const double at_a = exp(-0.5 * a * a) * scale, at_b = exp(-0.5 * b * b) * scale, shift = at_a - at_b;
            const double ratio = 1.0 + b * at_b - a * at_a - shift * shift, sd = s * sqrt(ratio > 0.0 ? ratio : 0.0);
            if (!(sd > 1e-12)) return -1;
            const double mu = m + (m < 0.5 ? shift : -shift) * s;
            score[i] = fabs((mu < 0.0 ? 0.0 : mu > 1.0 ? 1.0 : mu) - threshold) / sd;
        }
        if (score[i] < score[least]) least = i;
    }
    return least;
}
