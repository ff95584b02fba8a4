// Compiled with flags of its own (runtime/CMakeLists.txt): the loops are to become vector code
// (-O3, and -fno-math-errno for the square root), and never to fuse a multiplication with an
// addition, so that a float comes out the same on every machine, and whether or not it shares a
// vector with others.
#include "runtime/update/optimizer.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "runtime/update/flush_subnormals.h"

// Values before and after are one array, or two without overlap: either way no iteration depends on
// another, but the compiler cannot know, and would keep scalar code for the first case.
#if defined(__clang__)
#define TFDIST_INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#else
#define TFDIST_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#endif

namespace tfdist::runtime {
namespace {

// Where the floats of a range, or of one row, begin. Plain pointers: a checked span keeps loops
// scalar.
struct Arrays {
  const float* before;
  float* after;
  float* first;   // slot
  float* second;  // slot
  const float* gradient;
};

// --- What happens to float i ------------------------------------------------------------------
// The order of operations is TensorFlow's, which for rows is not always that of a dense gradient:
// another order differs in the last bit.

struct Sgd {
  static constexpr int kSlots = 0;
  float rate;
  void operator()(const Arrays& at, size_t i) const {
    at.after[i] = at.before[i] - at.gradient[i] * rate;
  }
};

struct Momentum {
  static constexpr int kSlots = 1;
  float rate;
  float momentum;
  void operator()(const Arrays& at, size_t i) const {
    const float accumulated = at.first[i] * momentum + at.gradient[i];
    at.first[i] = accumulated;
    at.after[i] = at.before[i] - accumulated * rate;
  }
};

struct Nesterov {
  float rate;
  float momentum;
  void operator()(const Arrays& at, size_t i) const {
    const float accumulated = at.first[i] * momentum + at.gradient[i];
    at.first[i] = accumulated;
    at.after[i] = at.before[i] - (at.gradient[i] * rate + accumulated * momentum * rate);
  }
};

struct NesterovRows {
  static constexpr int kSlots = 1;
  float rate;
  float momentum;
  void operator()(const Arrays& at, size_t i) const {
    const float accumulated = at.first[i] * momentum + at.gradient[i];
    at.first[i] = accumulated;
    at.after[i] = at.before[i] - (at.gradient[i] * rate + rate * momentum * accumulated);
  }
};

struct Adagrad {
  static constexpr int kSlots = 1;
  float rate;
  void operator()(const Arrays& at, size_t i) const {
    const float accumulated = at.first[i] + at.gradient[i] * at.gradient[i];
    at.first[i] = accumulated;
    at.after[i] = at.before[i] - at.gradient[i] * rate * (1 / std::sqrt(accumulated));
  }
};

struct Adam {
  float rate;
  float beta1;
  float beta2;
  float epsilon;
  void operator()(const Arrays& at, size_t i) const {
    const float g = at.gradient[i];
    const float m = at.first[i] + (g - at.first[i]) * (1 - beta1);
    const float v = at.second[i] + (g * g - at.second[i]) * (1 - beta2);
    at.first[i] = m;
    at.second[i] = v;
    at.after[i] = at.before[i] - m * rate / (std::sqrt(v) + epsilon);
  }
};

struct LazyAdam {
  static constexpr int kSlots = 2;
  float rate;
  float beta1;
  float beta2;
  float epsilon;
  void operator()(const Arrays& at, size_t i) const {
    const float g = at.gradient[i];
    const float m = beta1 * at.first[i] + (1 - beta1) * g;
    const float v = beta2 * at.second[i] + (1 - beta2) * (g * g);
    at.first[i] = m;
    at.second[i] = v;
    at.after[i] = at.before[i] - rate * m / (std::sqrt(v) + epsilon);
  }
};

// Adam for a table in three rounds: m and v of all rows decay, those of named rows grow, all rows
// move.
struct AdamDecay {
  float beta1;
  float beta2;
  void operator()(const Arrays& at, size_t i) const {
    at.first[i] *= beta1;
    at.second[i] *= beta2;
  }
};

struct AdamGrow {
  static constexpr int kSlots = 2;
  float beta1;
  float beta2;
  void operator()(const Arrays& at, size_t i) const {
    const float g = at.gradient[i];
    at.first[i] += g * (1 - beta1);
    at.second[i] += g * g * (1 - beta2);
  }
};

struct AdamMove {
  float rate;
  float epsilon;
  void operator()(const Arrays& at, size_t i) const {
    at.after[i] = at.before[i] - rate * at.first[i] / (std::sqrt(at.second[i]) + epsilon);
  }
};

// --- Loops ------------------------------------------------------------------------------------
// Not inlined: FlushSubnormals, in the caller, holds for all of their arithmetic.

template <typename Rule>
[[gnu::noinline]] void RunBaseline(const Rule rule, const Arrays at, const size_t count) {
  TFDIST_INDEPENDENT_ITERATIONS
  for (size_t i = 0; i < count; ++i) rule(at, i);
}

#if defined(__x86_64__)
// Square roots and divisions bound Adam and Adagrad while their floats are in the cache: twice the
// width is 1.6 times as fast (AMD Zen 4; four times is no better there).
template <typename Rule>
[[gnu::noinline, gnu::target("avx2")]] void RunWide(const Rule rule, const Arrays at,
                                                    const size_t count) {
  TFDIST_INDEPENDENT_ITERATIONS
  for (size_t i = 0; i < count; ++i) rule(at, i);
}
#endif

template <typename Rule>
void Run(const Rule& rule, const Arrays& at, size_t count) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return RunWide(rule, at, count);
#endif
  RunBaseline(rule, at, count);
}

struct Rows {
  const uint32_t* rows;
  size_t count;
  size_t width;
  uint32_t first_row;
  size_t end;  // of the floats of the range
};

constexpr size_t kLine = 64 / sizeof(float);  // of the cache
constexpr size_t kRowsAhead = 16;

// Asks for a row that is worked on a little later: rows lie anywhere in a table that may be much
// larger than the caches. The end of a long row comes by itself.
void Prefetch(const float* row, size_t width) {
  for (size_t i = 0; i < std::min(width, 8 * kLine); i += kLine) __builtin_prefetch(row + i, 1);
  __builtin_prefetch(row + width - 1, 1);
}

template <typename Rule>
[[gnu::noinline]] void RunRows(const Rule rule, const Arrays at, const Rows named) {
  const size_t width = named.width;
  for (size_t i = 0; i < named.count; ++i) {
    if (i + kRowsAhead < named.count) {
      const size_t next = size_t{named.rows[i + kRowsAhead] - named.first_row} * width;
      Prefetch(at.after + next, width);
      if constexpr (Rule::kSlots > 0) Prefetch(at.first + next, width);
      if constexpr (Rule::kSlots > 1) Prefetch(at.second + next, width);
    }
    const size_t begin = size_t{named.rows[i] - named.first_row} * width;
    assert(begin + width <= named.end);
    Arrays row = at;
    row.before += begin;
    row.after += begin;
    if constexpr (Rule::kSlots > 0) row.first += begin;
    if constexpr (Rule::kSlots > 1) row.second += begin;
    row.gradient += i * width;
    TFDIST_INDEPENDENT_ITERATIONS
    for (size_t j = 0; j < width; ++j) rule(row, j);
  }
}

Arrays ArraysOf(std::span<const float> before, const VariableRange& range,
                std::span<const float> gradient) {
  return {before.data(), range.values.data(), range.slots[0].data(), range.slots[1].data(),
          gradient.data()};
}

}  // namespace

Optimizer::Optimizer(const OptimizerSpec& spec) : spec_(spec) {
  Check(spec_, Phase::kRun);
  SetGlobalStep(0);
}

size_t Optimizer::slot_count() const {
  switch (spec_.kind) {
    case OptimizerKind::kSgd:
      return 0;
    case OptimizerKind::kMomentum:
    case OptimizerKind::kAdagrad:
      return 1;
    case OptimizerKind::kAdam:
      return 2;
  }
  return 0;
}

float Optimizer::initial_slot_value() const {
  return spec_.kind == OptimizerKind::kAdagrad ? spec_.initial_accumulator_value : 0;
}

OptimizerState Optimizer::initial_state() const {
  if (spec_.kind != OptimizerKind::kAdam) return {};
  return {spec_.beta1, spec_.beta2};
}

OptimizerStep Optimizer::NextStep(OptimizerState& state) const noexcept {
  if (spec_.kind != OptimizerKind::kAdam) return OptimizerStep(rate_);
  const OptimizerStep step(rate_ * std::sqrt(1 - state.beta2_power) / (1 - state.beta1_power));
  state.beta1_power *= spec_.beta1;
  state.beta2_power *= spec_.beta2;
  return step;
}

void Optimizer::Apply(OptimizerStep step, const VariableRange& range,
                      std::span<const float> gradient) const noexcept {
  ApplyFrom(step, range.values, range, gradient);
}

void Optimizer::ApplyFrom(OptimizerStep step, std::span<const float> before,
                          const VariableRange& range,
                          std::span<const float> gradient) const noexcept {
  const size_t count = range.values.size();
  assert(before.size() == count && gradient.size() == count && HasSlotsOf(range));
  const Arrays at = ArraysOf(before, range, gradient);
  const float rate = step.rate_;
  const FlushSubnormals flush;
  switch (spec_.kind) {
    case OptimizerKind::kSgd:
      return Run(Sgd{rate}, at, count);
    case OptimizerKind::kMomentum:
      if (spec_.use_nesterov) return Run(Nesterov{rate, spec_.momentum}, at, count);
      return Run(Momentum{rate, spec_.momentum}, at, count);
    case OptimizerKind::kAdagrad:
      return Run(Adagrad{rate}, at, count);
    case OptimizerKind::kAdam:
      return Run(Adam{rate, spec_.beta1, spec_.beta2, spec_.epsilon}, at, count);
  }
}

void Optimizer::ApplyRows(OptimizerStep step, const VariableRange& range, uint32_t first_row,
                          const RowsGradient& gradient) const noexcept {
  const size_t count = range.values.size();
  assert(gradient.values.size() == gradient.rows.size() * gradient.width && HasSlotsOf(range));
  const Arrays at = ArraysOf(range.values, range, gradient.values);
  const Rows named = {gradient.rows.data(), gradient.rows.size(), gradient.width, first_row, count};
  const float rate = step.rate_;
  const FlushSubnormals flush;
  switch (spec_.kind) {
    case OptimizerKind::kSgd:
      return RunRows(Sgd{rate}, at, named);
    case OptimizerKind::kMomentum:
      if (spec_.use_nesterov) return RunRows(NesterovRows{rate, spec_.momentum}, at, named);
      return RunRows(Momentum{rate, spec_.momentum}, at, named);
    case OptimizerKind::kAdagrad:
      return RunRows(Adagrad{rate}, at, named);
    case OptimizerKind::kAdam:
      if (spec_.lazy) {
        return RunRows(LazyAdam{rate, spec_.beta1, spec_.beta2, spec_.epsilon}, at, named);
      }
      DecayAllRows(range);
      GrowRows(range, first_row, gradient);
      return MoveAllRows(step, range);
  }
}

void Optimizer::DecayAllRows(const VariableRange& range) const noexcept {
  assert(moves_all_rows() && HasSlotsOf(range));
  const FlushSubnormals flush;
  Run(AdamDecay{spec_.beta1, spec_.beta2}, ArraysOf(range.values, range, {}), range.values.size());
}

void Optimizer::GrowRows(const VariableRange& range, uint32_t first_row,
                         const RowsGradient& gradient) const noexcept {
  assert(moves_all_rows() && HasSlotsOf(range));
  assert(gradient.values.size() == gradient.rows.size() * gradient.width);
  const FlushSubnormals flush;
  RunRows(
      AdamGrow{spec_.beta1, spec_.beta2}, ArraysOf(range.values, range, gradient.values),
      {gradient.rows.data(), gradient.rows.size(), gradient.width, first_row, range.values.size()});
}

void Optimizer::MoveAllRows(OptimizerStep step, const VariableRange& range) const noexcept {
  assert(moves_all_rows() && HasSlotsOf(range));
  const FlushSubnormals flush;
  Run(AdamMove{step.rate_, spec_.epsilon}, ArraysOf(range.values, range, {}), range.values.size());
}

bool Optimizer::HasSlotsOf(const VariableRange& range) const {
  return std::all_of(range.slots.begin(), range.slots.begin() + slot_count(),
                     [&](std::span<float> slot) { return slot.size() == range.values.size(); });
}

}  // namespace tfdist::runtime
