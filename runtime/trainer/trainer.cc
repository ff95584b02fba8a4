#include "runtime/trainer/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "runtime/common/cluster.h"
#include "runtime/data/batch_reader.h"
#include "runtime/data/dataset.h"
#include "runtime/model/models.h"
#include "runtime/trainer/checkpoints.h"
#include "runtime/trainer/progress.h"
#include "runtime/trainer/reports.h"
#include "runtime/trainer/training_data.h"

namespace tfdist::runtime {
namespace {

// A request for every variable of the model: Gradients or Targets.
template <typename Request, typename Views>
Request AllOf(const Views& views) {
  Request request;
  for (size_t i = 0; i < views.size(); ++i) request.push_back({i, views[i]});
  return request;
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

// Servers on this host read gradients and write values where the model has them.
ClientOptions Sharing(ClientOptions options, const Sequential& model) {
  options.memory = model.memory();
  return options;
}

class Trainer {
 public:
  Trainer(const TrainingOptions& options, const ClientOptions& client_options, Device& device)
      : options_(options),
        say_(client_options.say),
        task_(client_options.config.task),
        chief_(ChiefOf(client_options.config.cluster) == task_),
        data_(LoadTrainingData(options, client_options.config)),
        steps_(TotalSteps(options, client_options.config, data_)),
        model_(MakeModel(options.model, data_.image, data_.classes, device)),
        client_(Sharing(client_options, model_), model_.variables()),
        checkpoints_(options.checkpoints, client_, say_),
        pushed_(AllOf<Gradients>(model_.gradients())),
        pulled_(AllOf<Targets>(model_.values())),
        reader_(data_.train, data_.shard,
                options.seed + TrainerNumber(client_options.config.cluster, task_), options.batch) {
    if (chief_) reports_.emplace(options.reports, steps_, say_);
  }

  TrainingResult Run() {
    SayWhatItDoes();
    if (chief_) {
      checkpoints_.Begin(model_.InitialValues(options_.seed), options_.optimizer,
                         options_.update_mode);
    }
    result_.global_step = client_.Pull(pulled_);
    SayWhereItJoins();
    if (reports_ && reports_->wanted()) progress_.emplace(client_, result_.global_step);
    const Rate rate(result_.global_step);
    uint64_t next_evaluation = NextEvaluation();
    while (!IsOver()) {
      Step();
      if (MayRunAhead(next_evaluation)) continue;
      EndStep();
      if (chief_ && result_.global_step >= next_evaluation && result_.global_step < steps_) {
        Evaluate(rate);
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
    const std::string validation =
        data_.validation.empty() ? "" : fmt::format("{} for validation, ", data_.validation.size());
    say_(fmt::format("{}: {} of {} training samples, {}{}, {} parameters on {} servers",
                     ToString(task_), data_.shard.size(), data_.trained_count, validation,
                     ToString(options_.model, data_.image, data_.classes), parameters,
                     client_.server_count()));
  }

  // A worker that was started again, or late, begins in the middle.
  void SayWhereItJoins() const {
    if (chief_ || result_.global_step == 0) return;
    say_(fmt::format("{} joins at step {}", ToString(task_), result_.global_step));
  }

  // Each layer waits for its own values, and its gradients leave as they come, while those of the layer
  // before are computed. Leaves the step under way; ends the one before, or finds that it was the last.
  void Step() {
    if (next_batch_.size() == 0) reader_.Next(next_batch_);
    std::swap(batch_, next_batch_);
    model_.Forward(batch_, [&](LayerVariables layer) {
      if (step_) step_->WaitForValues(layer.first, layer.count);
    });
    EndStep();
    if (IsOver()) return;
    const auto begin = [&](float loss) {
      ThrowIfItDiverges(loss);
      step_.emplace(client_.StartStep(pushed_, pulled_, take_values_));
      reader_.Next(next_batch_);
      model_.Prepare(next_batch_);
    };
    loss_ = model_.Backward(
        begin, [&](size_t variable, size_t floats) { step_->GiveGradientUpTo(variable, floats); });
  }

  // By the steps, by this chief's choice, or by that of the chief of this worker.
  [[nodiscard]] bool IsOver() const {
    return result_.global_step >= steps_ || is_good_enough_ || client_.training_is_over();
  }

  // Waits for all that belongs to the step under way.
  void EndStep() {
    if (!step_) return;
    const uint64_t before = result_.global_step;
    result_.global_step = std::exchange(step_, std::nullopt)->Wait();
    ++result_.own_steps;
    if (progress_) progress_->AddStep(loss_, before, result_.global_step);
    if (chief_) checkpoints_.AfterStep(result_.global_step);
    if (progress_ && progress_->IsDue()) Report(std::nullopt, "");
  }

  // Nothing is to be done after the step under way but the next one, as far as this trainer knows.
  [[nodiscard]] bool MayRunAhead(uint64_t next_evaluation) const {
    const uint64_t step = result_.global_step + 1;  // at least
    return step < steps_ && !(chief_ && step >= next_evaluation);
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

  // During training by the validation samples, where some were set aside.
  void Evaluate(const Rate& rate) {
    const bool validates = !data_.validation.empty();
    if (validates && !validation_) validation_ = PartOf(data_.train, data_.validation);
    const std::string samples = validates ? "validation" : "test";
    const Quality quality = SayQuality(samples, validates ? *validation_ : Test(), "", rate);
    is_good_enough_ = quality.accuracy >= options_.stop_at_accuracy;
    if (!is_good_enough_) return;
    say_(fmt::format("{} stops: {} accuracy {:.4f} is at least {:g}", ToString(task_), samples,
                     quality.accuracy, options_.stop_at_accuracy));
  }

  Quality SayQuality(const std::string& samples, const Batch& batch, const std::string& prefix,
                     const Rate& rate) {
    const double steps_per_second = rate.At(result_.global_step);
    const Quality quality = model_.Evaluate(batch);
    say_(fmt::format("{}step {}, {} accuracy {:.4f}, loss {:.4f}, {:.0f} steps/s", prefix,
                     result_.global_step, samples, quality.accuracy, quality.loss,
                     steps_per_second));
    ThrowIfItDiverges(quality.loss);
    Report(quality, samples);
    return quality;
  }

  void Report(std::optional<Quality> quality, const std::string& samples) {
    if (!progress_) return;
    Measurement measurement = progress_->Take(result_.global_step);
    measurement.learning_rate =
        RateAt(options_.optimizer.schedule, options_.optimizer.learning_rate, result_.global_step);
    measurement.quality = quality;
    measurement.samples = samples;
    reports_->Add(measurement);
  }

  const Batch& Test() {
    if (!test_) test_ = WholeOf(data_.test);
    return *test_;
  }

  void Finish(const Rate& rate) {
    if (is_good_enough_) client_.EndTraining();
    if (!chief_ && result_.global_step < steps_) {
      say_(fmt::format("{} stops at step {}: the chief has ended the training", ToString(task_),
                       result_.global_step));
    }
    // The others have pushed since our last step: the model as it is on the servers now counts.
    if (chief_) {
      result_.global_step = client_.Pull(pulled_);
      checkpoints_.End(result_.global_step);
      for (const std::string& line : ServerTable(client_.traffic())) say_(line);
    }
    say_(ToString(client_.counters()));
    if (chief_) {
      result_.test = SayQuality("test", Test(), "final: ", rate);
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
  TrainingData data_;
  uint64_t steps_;
  Sequential model_;
  Client client_;
  Checkpoints checkpoints_;
  Gradients pushed_;  // all of the model's
  Targets pulled_;    // all of the model's values
  // They go on to the device as they come.
  TakeValues take_values_ = [this](size_t variable, std::span<const float> values) {
    model_.TakeValues(variable, values);
  };
  std::optional<Future> step_;  // under way
  Batch batch_;
  Batch next_batch_;
  BatchReader reader_;
  std::optional<Batch> validation_;   // filled by the chief's first evaluation
  std::optional<Batch> test_;         // the same
  std::optional<Reports> reports_;    // the chief's
  std::optional<Progress> progress_;  // the same, where somebody reads them
  bool is_good_enough_ = false;
  float loss_ = 0;
  TrainingResult result_;
};

}  // namespace

TrainingResult Train(const TrainingOptions& options, const ClientOptions& client_options,
                     Device& device) {
  return Trainer(options, client_options, device).Run();
}

}  // namespace tfdist::runtime
