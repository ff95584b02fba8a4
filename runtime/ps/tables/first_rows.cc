// Compiled without contraction of a product and a sum (runtime/CMakeLists.txt), so that a float
// comes out the same on every machine.
#include "runtime/ps/tables/first_rows.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "runtime/ps/tables/philox.h"

namespace tfdist::runtime {
namespace {

// FNV-1a, 64 bits: tells tables of one seed apart.
uint64_t HashOf(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

PhiloxKey KeyOf(const TablePart& part) {
  const uint64_t name = HashOf(part.table);
  // A plain sum of the two would let one seed undo another name.
  const PhiloxCounter mixed = Philox(
      {static_cast<uint32_t>(name), static_cast<uint32_t>(name >> 32), 0, 0},
      {static_cast<uint32_t>(part.initial.seed), static_cast<uint32_t>(part.initial.seed >> 32)});
  return {mixed[0], mixed[1]};
}

constexpr double kTwoToMinus32 = 1.0 / 4294967296.0;

struct Uniform {
  double low;
  double width;
  float high;
  explicit Uniform(const RowInitializer& initial)
      : low(initial.first), width(double{initial.second} - low), high(initial.second) {}
  float operator()(uint32_t bits) const {
    const auto value = static_cast<float>(low + bits * kTwoToMinus32 * width);
    // Rounding may reach the bound, which is not one of the values.
    return value < high || width == 0 ? value : static_cast<float>(low);
  }
};

// The normal distribution's quantile for `share`, which leaves out what is beyond two deviations.
// P. J. Acklam's rational approximation, relative error below 1.2e-9 (2003); its middle region is
// 0.02425 to 0.97575, which is all but a hair of the 0.02275 to 0.97725 that is needed, and is good
// to 1e-8 there too.
double Quantile(double share) {
  const double q = share - 0.5;
  const double r = q * q;
  const double above =
      ((((-3.969683028665376e+01 * r + 2.209460984245205e+02) * r - 2.759285104469687e+02) * r +
        1.383577518672690e+02) *
           r -
       3.066479806614716e+01) *
          r +
      2.506628277459239e+00;
  const double below =
      ((((-5.447609879822406e+01 * r + 1.615858368580409e+02) * r - 1.556989798598866e+02) * r +
        6.680131188771972e+01) *
           r -
       1.328068155288572e+01) *
          r +
      1;
  return std::clamp(above * q / below, -2.0, 2.0);
}

struct TruncatedNormal {
  double mean;
  double deviation;
  explicit TruncatedNormal(const RowInitializer& initial)
      : mean(initial.first), deviation(initial.second) {}
  float operator()(uint32_t bits) const {
    constexpr double kBelow = 0.022750131948179207;  // of the normal distribution, below -2
    const double share = kBelow + (bits + 0.5) * kTwoToMinus32 * (1 - 2 * kBelow);
    return static_cast<float>(mean + deviation * Quantile(share));
  }
};

template <typename Values>
void Fill(const TablePart& part, std::span<float> values, const Values values_of) {
  const PhiloxKey key = KeyOf(part);
  float* to = values.data();
  for (uint32_t row = 0; row < part.rows; ++row) {
    const uint32_t id = part.first + row * part.step;
    for (uint32_t column = 0; column < part.width; column += 4) {
      const PhiloxCounter bits = Philox({id, column / 4, 0, 0}, key);
      const uint32_t count = std::min(part.width - column, 4U);
      for (uint32_t i = 0; i < count; ++i) *to++ = values_of(bits[i]);
    }
  }
}

}  // namespace

void Check(const RowInitializer& initial) {
  if (!std::isfinite(initial.first) || !std::isfinite(initial.second)) {
    throw Error(Phase::kRun, "first values of rows that are not finite");
  }
  if (initial.values == RowValues::kUniform && initial.second < initial.first) {
    throw Error(Phase::kRun, "first values of rows: the largest is below the least");
  }
  if (initial.values == RowValues::kTruncatedNormal && initial.second < 0) {
    throw Error(Phase::kRun, "first values of rows: a deviation below 0");
  }
}

void FillFirstRows(const TablePart& part, std::span<float> values) {
  switch (part.initial.values) {
    case RowValues::kUniform:
      return Fill(part, values, Uniform(part.initial));
    case RowValues::kTruncatedNormal:
      return Fill(part, values, TruncatedNormal(part.initial));
  }
}

}  // namespace tfdist::runtime
