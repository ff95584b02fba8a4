#include "runtime/update/optimizer_spec.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "runtime/testing/expect_error.h"
#include "runtime/update/optimizer.h"

namespace tfdist::runtime {
namespace {

using testing::ExpectError;

TEST(OptimizerSpec, IsReadFromText) {
  EXPECT_EQ(ParseOptimizer("sgd:learning_rate=0.5"),
            (OptimizerSpec{.kind = OptimizerKind::kSgd, .learning_rate = 0.5F}));
  EXPECT_EQ(ParseOptimizer("momentum:learning_rate=1e-2,momentum=0.5,use_nesterov=true"),
            (OptimizerSpec{.kind = OptimizerKind::kMomentum,
                           .learning_rate = 0.01F,
                           .momentum = 0.5F,
                           .use_nesterov = true}));
  EXPECT_EQ(
      ParseOptimizer("adagrad:initial_accumulator_value=1,learning_rate=2"),
      (OptimizerSpec{
          .kind = OptimizerKind::kAdagrad, .learning_rate = 2, .initial_accumulator_value = 1}));
  EXPECT_EQ(ParseOptimizer("adam:learning_rate=0.001,beta1=0,lazy=true"),
            (OptimizerSpec{
                .kind = OptimizerKind::kAdam, .learning_rate = 0.001F, .beta1 = 0, .lazy = true}));
}

TEST(OptimizerSpec, IsWrittenWithEveryFieldOfItsKind) {
  EXPECT_EQ(ToString(ParseOptimizer("sgd:learning_rate=0.1")), "sgd:learning_rate=0.1");
  EXPECT_EQ(ToString(ParseOptimizer("momentum:learning_rate=0.1")),
            "momentum:learning_rate=0.1,momentum=0.9,use_nesterov=false");
  EXPECT_EQ(ToString(ParseOptimizer("adagrad:learning_rate=0.1")),
            "adagrad:learning_rate=0.1,initial_accumulator_value=0.1");
  EXPECT_EQ(ToString(ParseOptimizer("adam:learning_rate=0.001")),
            "adam:learning_rate=0.001,beta1=0.9,beta2=0.999,epsilon=1e-08,lazy=false");
}

TEST(OptimizerSpec, ComesBackFromItsTextBitForBit) {
  const OptimizerSpec spec = {.kind = OptimizerKind::kAdam,
                              .learning_rate = 0.1F + 1e-8F,
                              .beta1 = 1.0F / 3,
                              .beta2 = 0.99999994F,
                              .epsilon = 1.17549435e-38F,
                              .lazy = true};
  EXPECT_EQ(ParseOptimizer(ToString(spec)), spec);
}

TEST(OptimizerSpec, ABadTextIsRefusedWithTheFieldsName) {
  struct Bad {
    std::string text;
    std::string words;
  };
  for (const Bad& bad : {
           Bad{"", "no \"\", there are sgd, momentum, adagrad, adam"},
           Bad{"adamw:learning_rate=1", "no \"adamw\""},
           Bad{"sgd", "sgd: learning_rate is missing"},
           Bad{"adam:beta1=0.5", "adam: learning_rate is missing"},
           Bad{"sgd:momentum=0.9,learning_rate=1",
               "sgd: no field \"momentum\", there are learning_rate"},
           Bad{"sgd:learning_rate", "sgd: learning_rate is \"\", must be a number"},
           Bad{"sgd:learning_rate=fast", "sgd: learning_rate is \"fast\", must be a number"},
           Bad{"sgd:learning_rate=0.1x", "sgd: learning_rate is \"0.1x\", must be a number"},
           Bad{"sgd:learning_rate=1,learning_rate=1", "sgd: learning_rate is given twice"},
           Bad{"sgd:learning_rate=1,,", "sgd: no field \"\""},
           Bad{"sgd:learning_rate=0", "sgd: learning_rate is 0, must be above 0"},
           Bad{"sgd:learning_rate=-1", "sgd: learning_rate is -1, must be above 0"},
           Bad{"sgd:learning_rate=nan", "sgd: learning_rate is nan, must be above 0"},
           Bad{"sgd:learning_rate=inf", "sgd: learning_rate is inf, must be above 0"},
           Bad{"momentum:learning_rate=1,momentum=1",
               "momentum: momentum is 1, must be at least 0 and below 1"},
           Bad{"momentum:learning_rate=1,use_nesterov=1",
               "momentum: use_nesterov is \"1\", must be true or false"},
           Bad{"adagrad:learning_rate=1,initial_accumulator_value=0",
               "adagrad: initial_accumulator_value is 0, must be above 0"},
           Bad{"adam:learning_rate=1,beta1=1.5",
               "adam: beta1 is 1.5, must be at least 0 and below 1"},
           Bad{"adam:learning_rate=1,beta2=-0.1",
               "adam: beta2 is -0.1, must be at least 0 and below 1"},
           Bad{"adam:learning_rate=1,epsilon=0", "adam: epsilon is 0, must be above 0"},
       }) {
    SCOPED_TRACE(bad.text);
    ExpectError([&] { ParseOptimizer(bad.text); }, Phase::kUsage, bad.words);
  }
}

TEST(OptimizerSpec, IsCheckedWhenItComesFromElsewhereThanText) {
  OptimizerSpec spec = {.learning_rate = std::numeric_limits<float>::quiet_NaN()};
  ExpectError([&] { const Optimizer optimizer(spec); }, Phase::kRun, "sgd: learning_rate is nan");
  spec.learning_rate = 1;
  spec.epsilon = -1;  // Adam's alone
  EXPECT_NO_THROW(Check(spec, Phase::kRun));
  spec.kind = static_cast<OptimizerKind>(9);
  ExpectError([&] { Check(spec, Phase::kRun); }, Phase::kRun, "no kind has the number 9");
}

}  // namespace
}  // namespace tfdist::runtime
