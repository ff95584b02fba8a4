#include "runtime/program/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>

#include "base/error.h"
#include "runtime/common/cluster.h"
#include "runtime/placement/names.h"

namespace tfdist::runtime {
namespace {

// Options as they are written, before they are read.
struct Texts {
  std::string optimizer;
  std::string schedule;
  std::string update = "async";
  std::string security = "curve";
  std::string shared_memory = "on";
  std::string values = "float32";
  std::string device = "auto";
  std::string strategy = "round_robin";
  std::string partitioner = "none";
  std::string checkpoint_dir;
  int64_t checkpoint_seconds = 600;
  std::string from_checkpoint;
  std::string metrics;
  std::string summary_dir;
};

// The number that the whole text is; nullopt when it is none, or does not fit. CLI11's own reading
// takes "-1" for a large number where none is below zero.
template <typename Number>
std::optional<Number> Parse(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return number;
}

CLI::Validator WholeNumber(uint64_t least, uint64_t most = std::numeric_limits<uint64_t>::max()) {
  const bool bounded = most < std::numeric_limits<uint64_t>::max();
  const std::string range =
      bounded ? fmt::format("{} to {}", least, most) : fmt::format("{} on", least);
  const auto check = [=](const std::string& text) {
    const auto number = Parse<uint64_t>(text);
    // CLI11 reads "010" as an octal number.
    const bool decimal = text == "0" || !text.starts_with('0');
    if (number && decimal && *number >= least && *number <= most) return std::string();
    return fmt::format("expected a whole number from {}, got {}", range, text);
  };
  return {check, "from " + range};
}

CLI::Validator NumberAboveZero() {
  const auto check = [](const std::string& text) {
    const auto number = Parse<float>(text);
    // NaN is not above 0; what is too large or too small for a float is no number here.
    if (number && *number > 0 && *number <= std::numeric_limits<float>::max()) return std::string();
    return "expected a number above 0, at most 3.4e38, got " + text;
  };
  return {check, "above 0"};
}

CLI::Validator ShareBelowOne() {
  const auto check = [](const std::string& text) {
    const auto number = Parse<double>(text);
    if (number && *number > 0 && *number < 1) return std::string();
    return "expected a number above 0 and below 1, got " + text;
  };
  return {check, "above 0, below 1"};
}

// Without a slash at the end, which would hide the folder's own name.
std::filesystem::path FolderOf(const std::string& text) {
  std::filesystem::path folder(text);
  return folder.has_filename() ? folder : folder.parent_path();
}

void Declare(CLI::App& app, Options& options, Texts& texts, int64_t& timeout_seconds) {
  TrainingOptions& training = options.training;
  app.add_option("--data", training.data, "folder with train-images-idx3-ubyte[.gz] and so on")
      ->type_name("DIR");
  app.add_option("--model", training.model.kind, "kind of network")
      ->check(CLI::IsMember({"softmax", "mlp", "cnn"}))
      ->capture_default_str();
  app.add_option("--hidden", training.model.hidden,
                 "widths of the hidden layers of mlp and cnn: 128 or 512,128")
      ->delimiter(',')
      ->check(WholeNumber(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--filters", training.model.filters,
                 "filters in each convolution of cnn: 32 or 32,64")
      ->delimiter(',')
      ->check(WholeNumber(1, 1 << 12))
      ->capture_default_str();
  app.add_option("--batch", training.batch, "samples per step")
      ->check(WholeNumber(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--steps", training.steps,
                 "global steps, all trainers together; default with --epochs: until these end")
      ->check(WholeNumber(0))
      ->capture_default_str();
  app.add_option("--epochs", training.epochs,
                 "rounds through the training samples, all trainers together; with --steps: until "
                 "the first of both ends")
      ->check(WholeNumber(1))
      ->type_name("N");
  app.add_option(
         "--validation-split", training.validation_split,
         "fraction of training samples held out for evaluation: 0.1; the final line uses the "
         "test set")
      ->check(ShareBelowOne())
      ->type_name("F");
  auto* rate = app.add_option("--learning-rate", training.optimizer.learning_rate,
                              "learning rate of plain SGD")
                   ->check(NumberAboveZero())
                   ->capture_default_str();
  app.add_option("--optimizer", texts.optimizer,
                 "sgd, momentum, adagrad or adam: adam:learning_rate=0.001")
      ->type_name("SPEC")
      ->excludes(rate);
  app.add_option("--learning-rate-schedule", texts.schedule,
                 "constant, exponential, piecewise or cosine: "
                 "exponential:decay_steps=1000,decay_rate=0.96")
      ->type_name("SPEC");
  app.add_option("--update", texts.update,
                 "update mode: async, sync:replicas=3 or staleness:bound=4")
      ->type_name("MODE")
      ->capture_default_str();
  app.add_option("--server-threads", options.server_threads,
                 "threads per parameter server, each with a part of the variables and a port; the "
                 "same in every task")
      ->check(WholeNumber(1, kMaxServerThreads))
      ->type_name("N")
      ->capture_default_str();
  app.add_option(
         "--strategy", texts.strategy,
         "placement of variables: round_robin, or greedy (the server with the fewest bytes)")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option(
         "--partitioner", texts.partitioner,
         "how variables are split: none, fixed:4, min_size:262144, max_size:67108864 (bytes)")
      ->type_name("SPEC")
      ->capture_default_str();
  app.add_option("--seed", training.seed, "seed for initial values and sample order")
      ->check(WholeNumber(0))
      ->capture_default_str();
  app.add_option("--eval-every", training.eval_every, "global steps between evaluations")
      ->check(WholeNumber(1))
      ->capture_default_str();
  app.add_option("--stop-at-accuracy", training.stop_at_accuracy,
                 "training ends when an evaluation of the chief finds this accuracy: 0.98")
      ->check(ShareBelowOne())
      ->type_name("A");
  app.add_option("--metrics", texts.metrics,
                 "file for the chief's measurements, a line of JSON about every second")
      ->type_name("FILE");
  app.add_option("--summary-dir", texts.summary_dir,
                 "folder for the same measurements as TensorBoard's event files")
      ->type_name("DIR");
  CheckpointOptions& checkpoints = training.checkpoints;
  app.add_option(
         "--checkpoint-dir", texts.checkpoint_dir,
         "folder for checkpoints: one that all hosts share, or on each host its own; without "
         "it there are none")
      ->type_name("DIR");
  app.add_option("--checkpoint-steps", checkpoints.steps,
                 "global steps between checkpoints; 0: only by time")
      ->check(WholeNumber(0))
      ->capture_default_str();
  app.add_option("--checkpoint-seconds", texts.checkpoint_seconds,
                 "seconds between checkpoints, where --checkpoint-steps is 0")
      ->check(WholeNumber(1, 1'000'000'000))
      ->capture_default_str();
  app.add_option("--keep-checkpoints", checkpoints.keep, "number of newest checkpoints to keep")
      ->check(WholeNumber(1, 1000))
      ->capture_default_str();
  app.add_option("--checkpoint-misses", checkpoints.misses,
                 "stop training after N failed checkpoints in a row; 0: never")
      ->check(WholeNumber(0, 1'000'000))
      ->capture_default_str();
  app.add_option("--from-checkpoint", texts.from_checkpoint,
                 "a checkpoint, or a folder of them: a new model begins with its values")
      ->type_name("DIR");
  app.add_option("--security", texts.security,
                 "none lets anyone on the network read and change the model")
      ->check(CLI::IsMember({"curve", "none"}))
      ->capture_default_str();
  app.add_option(
         "--device", texts.device,
         "device of a trainer: auto (a GPU that this executable sees and can use, else the CPU), "
         "cpu, cuda:N")
      ->type_name("DEVICE")
      ->capture_default_str();
  app.add_option("--values", texts.values, "number format on the wire, for this trainer")
      ->check(CLI::IsMember({"float32", "float16", "bfloat16"}))
      ->capture_default_str();
  app.add_option("--shared-memory", texts.shared_memory, "off: TCP even between tasks of one host")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  app.add_option("--server-timeout", timeout_seconds, "seconds to wait for a parameter server")
      ->check(WholeNumber(1, 1'000'000))
      ->capture_default_str();
}

// False when the user asked for help, which is then in `help`.
bool Parse(CLI::App& app, int argc, const char* const* argv, std::string& help) {
  try {
    app.parse(argc, argv);
    return true;
  } catch (const CLI::CallForHelp&) {
    help = app.help();
    return false;
  } catch (const CLI::ParseError& error) {
    throw Error(Phase::kUsage, error.what(), app.get_name() + " --help");
  }
}

}  // namespace

bool IsExport(int argc, const char* const* argv) {
  return argc > 1 && std::string_view(argv[1]) == "export";
}

std::optional<ExportOptions> ParseExport(int argc, const char* const* argv, std::string& help) {
  std::string from;
  std::string to;
  CLI::App app("Writes the model of a checkpoint as one safetensors file.",
               "tfdist-runtime export");
  app.add_option("DIR", from, "a checkpoint, or a folder of them: its newest one")->required();
  app.add_option("--to", to, "the file that is written")->required()->type_name("FILE");
  if (!Parse(app, argc - 1, argv + 1, help)) return std::nullopt;
  return ExportOptions{FolderOf(from), to};
}

std::optional<Options> ParseOptions(int argc, const char* const* argv, std::string& help) {
  Options options;
  Texts texts;
  int64_t timeout_seconds = options.server_timeout.count();
  CLI::App app(
      "Runs the task of TF_CONFIG: a parameter server or a trainer. TFDIST_SECRET_FILE names the "
      "file with the job's secret, TFDIST_ATTEMPT the attempt of the job (default 1). Another use: "
      "tfdist-runtime export DIR --to FILE.",
      "tfdist-runtime");
  Declare(app, options, texts, timeout_seconds);
  if (!Parse(app, argc, argv, help)) return std::nullopt;
  if (!texts.optimizer.empty()) options.training.optimizer = ParseOptimizer(texts.optimizer);
  if (!texts.schedule.empty()) {
    options.training.optimizer.schedule = ParseSchedule(texts.schedule);
  }
  if (app.count("--epochs") > 0 && app.count("--steps") == 0) {
    options.training.steps = std::numeric_limits<uint64_t>::max();
  }
  options.training.update_mode = ParseUpdateMode(texts.update);
  options.training.checkpoints.folder = FolderOf(texts.checkpoint_dir);
  options.training.checkpoints.interval = std::chrono::seconds(texts.checkpoint_seconds);
  options.training.checkpoints.first_values = FolderOf(texts.from_checkpoint);
  options.training.reports.metrics = texts.metrics;
  options.training.reports.summaries = texts.summary_dir;
  options.strategy = ParseStrategy(texts.strategy);
  options.partitioner = ParsePartitioner(texts.partitioner);
  options.secure = texts.security == "curve";
  options.values = ParseWireFloat(texts.values);
  options.device = ParseDeviceChoice(texts.device);
  options.shared_memory = texts.shared_memory == "on";
  options.server_timeout = std::chrono::seconds(timeout_seconds);
  return options;
}

}  // namespace tfdist::runtime
