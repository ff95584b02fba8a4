#include "runtime/update/learning_rate_schedule.h"

#include <gtest/gtest.h>

#include <array>

#include "runtime/testing/expect_error.h"
#include "runtime/update/optimizer.h"

namespace tfdist::runtime {
namespace {

// The numbers are what tf.keras.optimizers.schedules of TensorFlow 2.15.1 gives.
float At(const std::string& schedule, uint64_t step) {
  return RateAt(ParseSchedule(schedule), 0.1F, step);
}

TEST(LearningRateSchedule, IsConstantByItself) { EXPECT_EQ(RateAt({}, 0.1F, 1000), 0.1F); }

TEST(LearningRateSchedule, ExponentialDecayIsTensorFlows) {
  EXPECT_FLOAT_EQ(At("exponential:decay_steps=100,decay_rate=0.96", 0), 0.1F);
  EXPECT_FLOAT_EQ(At("exponential:decay_steps=100,decay_rate=0.96", 50), 0.09797959F);
  EXPECT_FLOAT_EQ(At("exponential:decay_steps=100,decay_rate=0.96", 250), 0.09029799F);
  EXPECT_FLOAT_EQ(At("exponential:decay_steps=100,decay_rate=0.96,staircase=true", 99), 0.1F);
  EXPECT_FLOAT_EQ(At("exponential:decay_steps=100,decay_rate=0.96,staircase=true", 250), 0.09216F);
}

// "A boundary belongs to the value before it": tf.compat.v1.train.piecewise_constant.
TEST(LearningRateSchedule, PiecewiseConstantIsTensorFlows) {
  const std::string schedule = "piecewise:boundaries=100/200,values=1/0.5/0.25";
  EXPECT_EQ(At(schedule, 0), 1.0F);
  EXPECT_EQ(At(schedule, 100), 1.0F);
  EXPECT_EQ(At(schedule, 101), 0.5F);
  EXPECT_EQ(At(schedule, 200), 0.5F);
  EXPECT_EQ(At(schedule, 201), 0.25F);
}

// tf.keras.optimizers.schedules.CosineDecay.
TEST(LearningRateSchedule, CosineDecayIsTensorFlows) {
  const std::string schedule = "cosine:decay_steps=100,alpha=0.1";
  EXPECT_FLOAT_EQ(At(schedule, 0), 0.1F);
  EXPECT_FLOAT_EQ(At(schedule, 50), 0.055F);
  EXPECT_FLOAT_EQ(At(schedule, 100), 0.01F);
  EXPECT_FLOAT_EQ(At(schedule, 1000), 0.01F);
}

// CosineDecay(initial_learning_rate=0.02, warmup_target=0.1, warmup_steps=10, decay_steps=100).
TEST(LearningRateSchedule, WarmUpIsTensorFlows) {
  const std::string schedule = "cosine:decay_steps=100,warmup_steps=10,warmup_from=0.2";
  EXPECT_FLOAT_EQ(At(schedule, 0), 0.02F);
  EXPECT_FLOAT_EQ(At(schedule, 5), 0.06F);
  EXPECT_FLOAT_EQ(At(schedule, 10), 0.1F);
  EXPECT_FLOAT_EQ(At(schedule, 60), 0.05F);
  EXPECT_FLOAT_EQ(At("constant:warmup_steps=4", 1), 0.025F);
  EXPECT_FLOAT_EQ(At("constant:warmup_steps=4", 9), 0.1F);
}

TEST(LearningRateSchedule, GoesThroughItsText) {
  for (const char* text :
       {"exponential:decay_steps=100,decay_rate=0.96,staircase=true,warmup_steps=5,warmup_from=0.5",
        "piecewise:boundaries=100/200,values=1/0.5/0.25,warmup_steps=0,warmup_from=0",
        "cosine:decay_steps=100,alpha=0.1,warmup_steps=0,warmup_from=0",
        "constant:warmup_steps=3,warmup_from=0"}) {
    EXPECT_EQ(ToString(ParseSchedule(text)), text);
    const std::string optimizer = "sgd:learning_rate=0.5 " + std::string(text);
    EXPECT_EQ(ToString(ParseOptimizer(optimizer)), optimizer);
  }
}

TEST(LearningRateSchedule, NamesWhatIsWrong) {
  const std::array<std::array<const char*, 2>, 12> cases = {{
      {"linear:decay_steps=1", "no \"linear\""},
      {"exponential:decay_steps=1", "decay_rate is missing"},
      {"exponential:decay_steps=0,decay_rate=1", "decay_steps must be above 0"},
      {"exponential:decay_steps=1,decay_rate=0", "decay_rate must be above 0"},
      {"exponential:decay_steps=x,decay_rate=1", "decay_steps is \"x\", must be a whole number"},
      {"exponential:alpha=1", "no field \"alpha\""},
      {"exponential:decay_steps=1,decay_steps=1", "decay_steps is given twice"},
      {"exponential:decay_steps=1,decay_rate=1,staircase=1", "must be true or false"},
      {"piecewise:boundaries=1,values=1", "values must be one more"},
      {"piecewise:boundaries=2/2,values=1/1/1", "boundaries must rise"},
      {"piecewise:boundaries=2,values=1/-1", "values must be above 0"},
      {"constant:warmup_from=1", "warmup_from must be"},
  }};
  for (const auto& [text, message] : cases) {
    testing::ExpectError([&, text = text] { (void)ParseSchedule(text); }, Phase::kUsage, message);
  }
}

TEST(Optimizer, FollowsTheScheduleByTheGlobalStep) {
  OptimizerSpec spec{.learning_rate = 1};
  spec.schedule = ParseSchedule("piecewise:boundaries=0,values=0.5/0.25");
  Optimizer optimizer(spec);
  OptimizerState state = optimizer.initial_state();
  std::array<float, 1> value = {0};
  const std::array<float, 1> gradient = {-1};
  const auto apply = [&] {
    optimizer.Apply(optimizer.NextStep(state), {value, {}}, gradient);
    return value[0];
  };
  EXPECT_EQ(apply(), 0.5F);
  optimizer.SetGlobalStep(1);
  EXPECT_EQ(apply(), 0.75F);
}

}  // namespace
}  // namespace tfdist::runtime
