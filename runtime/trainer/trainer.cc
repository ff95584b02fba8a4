#include "runtime/trainer/trainer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "runtime/common/cluster.h"
#include "runtime/data/dataset.h"
#include "runtime/model/dense_network.h"
#include "runtime/trainer/checkpoints.h"

namespace tfdist::runtime {
namespace {

struct Data {
  Dataset train;
  Dataset test;
  size_t classes = 0;
};

Data LoadData(const std::string& folder) {
  if (folder.empty()) throw Error(Phase::kUsage, "a trainer needs --data DIR");
  Data data{LoadDataset(folder, "train"), LoadDataset(folder, "t10k")};
  if (data.train.images.pixels != data.test.images.pixels) {
    throw Error(Phase::kFiles, folder + ": training and test images differ in size");
  }
  data.classes = std::max(ClassCount(data.train), ClassCount(data.test));
  return data;
}

std::vector<size_t> WidthsOf(const TrainingOptions& options, const Data& data) {
  std::vector<size_t> widths = {data.train.images.pixels};
  if (options.model == "mlp") {
    widths.insert(widths.end(), options.hidden.begin(), options.hidden.end());
  }
  widths.push_back(data.classes);
  return widths;
}

Batch WholeOf(const Dataset& dataset) {
  std::vector<size_t> samples(dataset.size());
  std::iota(samples.begin(), samples.end(), 0);
  Batch batch;
  FillBatch(dataset, samples, batch);
  return batch;
}

std::vector<size_t> OwnShard(const TfConfig& config, size_t sample_count) {
  const size_t trainers = TrainersOf(config.cluster).size();
  std::vector<size_t> shard =
      ShardOf(sample_count, TrainerNumber(config.cluster, config.task), trainers);
  if (shard.empty()) {
    throw Error(Phase::kConfig,
                fmt::format("{} samples are too few for {} trainers", sample_count, trainers));
  }
  return shard;
}

// Steps per second since it was made.
class Rate {
 public:
  explicit Rate(uint64_t step) : first_step_(step) {}
  [[nodiscard]] double At(uint64_t step) const {
    const std::chrono::duration<double> time = SystemClock().Now() - begin_;
    return static_cast<double>(step - first_step_) / std::max(time.count(), 1e-9);
  }

 private:
  uint64_t first_step_;
  TimePoint begin_ = SystemClock().Now();
};

class Trainer {
 public:
  Trainer(const TrainingOptions& options, const ClientOptions& client_options)
      : options_(options),
        say_(client_options.say),
        task_(client_options.config.task),
        chief_(ChiefOf(client_options.config.cluster) == task_),
        data_(LoadData(options.data)),
        shard_(OwnShard(client_options.config, data_.train.size())),
        widths_(WidthsOf(options, data_)),
        model_(widths_),
        sampler_(shard_, options.seed + TrainerNumber(client_options.config.cluster, task_)),
        client_(client_options, model_.variables()),
        checkpoints_(options.checkpoints, client_, say_),
        values_(Zeros(model_.variables())),
        gradients_(values_),
        pushed_(GradientsOf(gradients_)),
        pulled_(TargetsOf(values_)) {}

  TrainingResult Run() {
    SayWhatItDoes();
    if (chief_) {
      checkpoints_.Begin(model_.InitialValues(options_.seed), options_.optimizer,
                         options_.update_mode);
    }
    result_.global_step = client_.Pull(pulled_);
    SayWhereItJoins();
    const Rate rate(result_.global_step);
    uint64_t next_evaluation = NextEvaluation();
    while (result_.global_step < options_.steps) {
      Step();
      if (chief_) checkpoints_.AfterStep(result_.global_step);
      if (chief_ && result_.global_step >= next_evaluation &&
          result_.global_step < options_.steps) {
        Evaluate("", rate);
        next_evaluation = NextEvaluation();
      }
    }
    Finish(rate);
    return result_;
  }

 private:
  void SayWhatItDoes() const {
    size_t parameters = 0;
    for (const TensorSpec& variable : model_.variables()) parameters += ElementCount(variable);
    say_(fmt::format("{}: {} of {} training samples, {} {}, {} parameters on {} servers",
                     ToString(task_), shard_.size(), data_.train.size(), options_.model,
                     fmt::join(widths_, "-"), parameters, client_.server_count()));
  }

  // A worker that was started again, or late, begins in the middle.
  void SayWhereItJoins() const {
    if (chief_ || result_.global_step == 0) return;
    say_(fmt::format("{} joins at step {}", ToString(task_), result_.global_step));
  }

  void Step() {
    FillBatch(data_.train, sampler_.Next(options_.batch), batch_);
    loss_ = model_.Gradients(values_, batch_, gradients_);
    ThrowIfItDiverges(loss_);
    result_.global_step = client_.PushPull(pushed_, pulled_);
    ++result_.own_steps;
  }

  // A server refuses gradients that are not finite, and cannot know why they are not.
  void ThrowIfItDiverges(double loss) const {
    if (std::isfinite(loss)) return;
    throw Error(
        Phase::kRun,
        fmt::format("training diverges: after step {} the loss is not finite", result_.global_step),
        fmt::format("a lower learning rate than {:g}: --learning-rate, or learning_rate in "
                    "--optimizer",
                    options_.optimizer.learning_rate));
  }

  [[nodiscard]] uint64_t NextEvaluation() const {
    return (result_.global_step / options_.eval_every + 1) * options_.eval_every;
  }

  void Evaluate(const std::string& prefix, const Rate& rate) {
    if (test_batch_.size() == 0) test_batch_ = WholeOf(data_.test);
    const double steps_per_second = rate.At(result_.global_step);
    result_.test = model_.Evaluate(values_, test_batch_);
    say_(fmt::format("{}step {}, test accuracy {:.4f}, loss {:.4f}, {:.0f} steps/s", prefix,
                     result_.global_step, result_.test->accuracy, result_.test->loss,
                     steps_per_second));
    ThrowIfItDiverges(result_.test->loss);
  }

  void Finish(const Rate& rate) {
    // The others have pushed since our last step: the model as it is on the servers now counts.
    if (chief_) {
      result_.global_step = client_.Pull(pulled_);
      checkpoints_.End(result_.global_step);
    }
    say_(ToString(client_.counters()));
    if (chief_) {
      Evaluate("final: ", rate);
      return;
    }
    if (result_.own_steps == 0) {
      say_(fmt::format("final: step {}, none of them by {}", result_.global_step, ToString(task_)));
      return;
    }
    say_(fmt::format("final: step {}, {} steps by {}, last batch's loss {:.4f}, {:.0f} steps/s",
                     result_.global_step, result_.own_steps, ToString(task_), loss_,
                     rate.At(result_.global_step)));
  }

  const TrainingOptions& options_;
  const Say& say_;
  TaskId task_;
  bool chief_;
  Data data_;
  std::vector<size_t> shard_;
  std::vector<size_t> widths_;
  DenseNetwork model_;
  Sampler sampler_;
  Client client_;
  Checkpoints checkpoints_;
  Tensors values_;
  Tensors gradients_;
  Gradients pushed_;  // all of gradients_
  Targets pulled_;    // all of values_
  Batch batch_;
  Batch test_batch_;  // filled by the chief's first evaluation
  float loss_ = 0;
  TrainingResult result_;
};

}  // namespace

TrainingResult Train(const TrainingOptions& options, const ClientOptions& client_options) {
  return Trainer(options, client_options).Run();
}

}  // namespace tfdist::runtime
