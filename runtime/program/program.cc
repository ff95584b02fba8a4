#include "runtime/program/program.h"

#include <cblas.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/uncaught.h"
#include "runtime/checkpoint/export.h"
#include "runtime/common/memory.h"
#include "runtime/program/options.h"
#include "runtime/program/status_line.h"
#include "runtime/program/stop_signal.h"
#include "runtime/program/task_environment.h"
#include "runtime/server.h"
#include "runtime/trainer/trainer.h"

namespace tfdist::runtime {
namespace {

// The keys that this process holds must not end up in a core file.
void ForbidCoreFiles() {
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
}

// A server has a connection to each trainer; libzmq spins in accept(2) when descriptors run out.
void AllowAllDescriptors() {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

// OpenBLAS takes every core by itself; a host may carry several trainers.
void UseOneBlasThreadUnlessToldOtherwise() {
  const char* told = std::getenv("OPENBLAS_NUM_THREADS");
  if (told == nullptr) openblas_set_num_threads(1);
}

void RunServer(const Options& options, const TaskEnvironment& task, const Say& say) {
  const int stop_fd = CatchStopSignals();
  ServerOptions server_options;
  server_options.config = task.config;
  server_options.secret = task.secret;
  server_options.attempt = task.attempt;
  server_options.shared_memory = options.shared_memory;
  server_options.threads = options.server_threads;
  server_options.checkpoints = options.training.checkpoints.folder;
  server_options.first_values = options.training.checkpoints.first_values;
  server_options.say = say;
  Server(server_options).Run(stop_fd);
}

void RunTrainer(const Options& options, const TaskEnvironment& task, const Say& say,
                const MakeDevice& make_device) {
  UseOneBlasThreadUnlessToldOtherwise();
  ClientOptions client_options;
  client_options.config = task.config;
  client_options.secret = task.secret;
  client_options.attempt = task.attempt;
  client_options.strategy = options.strategy;
  client_options.partitioner = options.partitioner;
  client_options.server_threads = options.server_threads;
  client_options.values = options.values;
  client_options.shared_memory = options.shared_memory;
  client_options.server_timeout = options.server_timeout;
  StatusLine status_line(say);
  client_options.say = [&](const std::string& line) { status_line.SayLine(line); };
  TrainingOptions training = options.training;
  if (status_line.is_shown()) {
    training.reports.status = [&](const std::string& text) { status_line.Show(text); };
  }
  const std::unique_ptr<Device> device = make_device(options.device, client_options.say);
  Train(training, client_options, *device);
}

void RunTask(const Options& options, const Say& say, const MakeDevice& make_device) {
  ForbidCoreFiles();
  AllowAllDescriptors();
  KeepFreedMemory();
  const TaskEnvironment task = ReadTaskEnvironment(options.secure);
  if (task.config.task.type == "ps") {
    RunServer(options, task, say);
  } else {
    RunTrainer(options, task, say, make_device);
  }
}

void RunExport(int argc, const char* const* argv, const Say& say) {
  std::string help;
  const std::optional<ExportOptions> options = ParseExport(argc, argv, help);
  if (!options) return say(help);
  const Exported exported = ExportModel(options->checkpoint, options->to);
  say(fmt::format("{}: {} parameters in {} variables, step {}", options->to.string(),
                  exported.parameters, exported.variables, exported.step));
}

void RunTaskOfJob(int argc, const char* const* argv, const Say& say,
                  const MakeDevice& make_device) {
  std::string help;
  const std::optional<Options> options = ParseOptions(argc, argv, help);
  if (!options) return say(help);
  RunTask(*options, say, make_device);
}

int Report(const Error& error) {
  std::string text = fmt::format("tfdist-runtime: {}\n", error.cause());
  if (!error.remedy().empty()) text += fmt::format("  try: {}\n", error.remedy());
  std::fputs(text.c_str(), stderr);  // unlike fmt::print it does not throw where nobody reads
  if (error.phase() == Phase::kInternal) return kExitInternal;
  return error.phase() == Phase::kUsage || error.phase() == Phase::kConfig ? 2 : 1;
}

}  // namespace

void PrintLine(const std::string& line) {
  std::fwrite((line + "\n").data(), 1, line.size() + 1, stdout);
  std::fflush(stdout);
}

int RunProgram(int argc, const char* const* argv, const Say& say, const MakeDevice& make_device) {
  try {
    if (IsExport(argc, argv)) {
      RunExport(argc, argv, say);
    } else {
      RunTaskOfJob(argc, argv, say, make_device);
    }
    return 0;
  } catch (const std::bad_alloc&) {
    return Report(Error(Phase::kRun, "out of memory",
                        "more servers, which then hold less each, or a smaller model"));
  } catch (...) {
    return Report(CurrentError());
  }
}

}  // namespace tfdist::runtime
