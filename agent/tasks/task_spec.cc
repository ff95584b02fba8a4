#include "agent/tasks/task_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "agent/census/census.h"
#include "agent/slot/kept_folder.h"
#include "agent/tasks/conda.h"
#include "agent/tasks/container_spec.h"
#include "agent/tasks/gpu_share.h"
#include "base/error.h"
#include "base/failures.h"
#include "base/inner_command.h"
#include "base/text.h"

namespace tfdist::agent {
namespace {

constexpr const char* kProxies[] = {"http_proxy", "https_proxy", "all_proxy", "grpc_proxy",
                                    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"};

class TextsOfTask {
 public:
  TextsOfTask(const protocol::TaskDescription& task, const SlotFolder& folder, const SlotInfo& info,
              const Environment& host, const AttemptContext& context)
      : folder_(folder),
        kept_(KeptFolder(info)),
        filling_{context.addresses, context.common, [&task, &host](const std::string& name) {
                   const auto value = host.Get(name);
                   if (value) return *value;
                   throw Error(Phase::kCommand,
                               fmt::format("{} uses the variable {}, which this host does not set",
                                           task.task, name),
                               "set it where a login without a terminal reads it, or write its "
                               "value into the cluster file");
                 }} {}

  [[nodiscard]] std::string Fill(const protocol::Text& text) const {
    std::string filled = protocol::Fill(text, filling_);
    ReplaceAll(filled, protocol::kRuntimePath, folder_.runtime().string());
    ReplaceAll(filled, protocol::kWorkdirPath, folder_.work().string());
    ReplaceAll(filled, protocol::kKeepPath, kept_.string());
    return filled;
  }

 private:
  const SlotFolder& folder_;
  std::filesystem::path kept_;
  protocol::Filling filling_;
};

std::string HostName(const SlotInfo& info, const AttemptContext& context) {
  const auto slot = static_cast<size_t>(info.slot);
  return slot < context.slots.size() ? context.slots[slot].host : "";
}

void CheckAddresses(const AttemptContext& context) {
  std::set<std::string_view> known;
  for (const auto& slot : context.slots) known.insert(slot.address);
  for (const std::string& address : context.addresses) {
    if (!known.contains(address)) {
      throw ProtocolError(Phase::kControl,
                          "the coordinator named an address that is not in the plan");
    }
  }
}

// On a host without GPUs nothing is set: programs look for them and find none.
void SetGpus(Environment& environment, const protocol::TaskDescription& task,
             const std::vector<std::string>& gpus) {
  if (!task.gpu_share) return;
  const std::string visible = VisibleGpus(*task.gpu_share, gpus, task.task);
  if (!visible.empty()) environment.Set("CUDA_VISIBLE_DEVICES", visible);
}

// AMD's runtime reads ROCR_VISIBLE_DEVICES, and HIP counts what that leaves from 0; HIP takes an empty CUDA_VISIBLE_DEVICES
// for none that is set. What the file says of these variables stays.
void TellAmd(Environment& environment, const protocol::TaskDescription& task) {
  constexpr const char* kCuda = "CUDA_VISIBLE_DEVICES";
  constexpr const char* kHip = "HIP_VISIBLE_DEVICES";
  constexpr const char* kRocr = "ROCR_VISIBLE_DEVICES";
  for (const auto& [name, text] : task.env) {
    if (name == kHip || name == kRocr) return;
  }
  const std::optional<std::string> visible = environment.Get(kCuda);
  if (!visible) return;  // what the host says of them stays, such as a scheduler's limit
  for (const char* name : {kCuda, kHip, kRocr}) environment.Unset(name);
  environment.Set(visible->empty() ? kHip : kRocr, visible->empty() ? "-1" : *visible);
}

void SetOwnVariables(Environment& environment, const std::string& task, const SlotFolder& folder,
                     const SlotInfo& info, const AttemptContext& context) {
  environment.Set("TFDIST_JOB", info.name);
  environment.Set("TFDIST_JOB_ID", info.job);
  environment.Set("TFDIST_ATTEMPT", std::to_string(context.attempt));
  environment.Set("TFDIST_TASK", task);
  environment.Set("TFDIST_HOST", HostName(info, context));
  environment.Set("TFDIST_LOG_DIR", folder.TaskFolder(task).string());
  environment.Set("TFDIST_SECRET_FILE", folder.secret().string());
  environment.Set(std::string(kCookieName), CookieValue(info.job, info.slot));
}

// A proxy that the host's network needs is in the way between the job's own hosts: gRPC, Gloo and HTTP go through it
// without a word. What the file says of these variables stays.
void ExemptFromProxies(Environment& environment, const protocol::TaskDescription& task,
                       const std::vector<std::string>& addresses) {
  constexpr size_t kMostBytes = 64 << 10;  // of one variable Linux takes 128 KiB
  const bool has_proxy = std::ranges::any_of(
      kProxies, [&](const char* name) { return !environment.Get(name).value_or("").empty(); });
  if (!has_proxy) return;
  std::set<std::string> own(addresses.begin(), addresses.end());
  own.insert({"localhost", "127.0.0.1"});
  const std::string list = fmt::format("{}", fmt::join(own, ","));
  for (const auto& [name, other] : {std::pair("no_proxy", "NO_PROXY"), {"NO_PROXY", "no_proxy"}}) {
    const bool is_said = std::ranges::any_of(
        task.env, [&, name = name](const auto& said) { return said.first == name; });
    if (is_said || list.size() > kMostBytes) continue;
    std::string value = environment.Get(name).value_or("");
    if (value.empty()) value = environment.Get(other).value_or("");
    if (value != "*")
      environment.Set(name, value.empty() ? list : fmt::format("{},{}", value, list));
  }
}

std::string StartFolder(const std::string& cwd, const SlotFolder& folder) {
  return cwd.empty() ? folder.work().string() : (folder.work() / cwd).string();
}

// No host knows it by itself.
bool IsToldByOthers(const protocol::Text::Part& part) {
  return std::holds_alternative<protocol::SlotAddress>(part) ||
         std::holds_alternative<protocol::CommonText>(part);
}

void LeaveOutWhatOthersTell(protocol::Text& text) { std::erase_if(text.parts, IsToldByOthers); }

RunSpec MakeSpecWithoutContainer(const protocol::TaskDescription& task, const SlotFolder& folder,
                                 const SlotInfo& info, const Environment& host,
                                 const AttemptContext& context, int run) {
  CheckAddresses(context);
  // Known by its folder alone (deploy/told.h): `describe` takes no such task.
  if (task.argv.empty()) {
    throw Error(Phase::kFiles, "the description of this host's tasks is damaged");
  }
  const TextsOfTask texts(task, folder, info, host, context);
  RunSpec spec;
  spec.task = task.task;
  for (const auto& text : task.argv) {
    spec.argv.push_back(texts.Fill(text));
  }
  // A container begins with what its image sets.
  Environment environment = task.container ? Environment() : host;
  for (const std::string& name : task.unset) environment.Unset(name);
  for (const auto& [name, text] : task.env) {
    environment.Set(name, texts.Fill(text));
  }
  if (!task.conda.parts.empty()) {
    Activate(FindConda(texts.Fill(task.conda), host, task.task), environment);
  }
  SetGpus(environment, task, context.gpus);
  if (context.is_amd) TellAmd(environment, task);
  ExemptFromProxies(environment, task, context.addresses);
  SetOwnVariables(environment, task.task, folder, info, context);
  spec.env = environment.Strings();
  spec.cwd = StartFolder(texts.Fill(task.cwd), folder);
  spec.merged_output = task.merged_output;
  spec.log_limit_bytes = task.log_limit_bytes;
  spec.grace_ms = task.grace_ms;
  spec.warning_signal = task.warning_signal;
  spec.attempt = context.attempt;
  spec.run = run;
  return spec;
}

}  // namespace

RunSpec MakeRunSpec(const protocol::TaskDescription& task, const SlotFolder& folder,
                    const SlotInfo& info, const Environment& host, const AttemptContext& context,
                    int run) {
  RunSpec spec = MakeSpecWithoutContainer(task, folder, info, host, context, run);
  if (task.container) PutIntoContainer(spec, task, folder, info, host);
  return spec;
}

RunSpec MakePreflightSpec(const protocol::TaskDescription& task, const SlotFolder& folder,
                          const SlotInfo& info, const Environment& host) {
  protocol::TaskDescription literal = task;
  for (auto& text : literal.argv) LeaveOutWhatOthersTell(text);
  for (auto& [name, text] : literal.env) LeaveOutWhatOthersTell(text);
  return MakeSpecWithoutContainer(literal, folder, info, host, AttemptContext(), 1);
}

RunSpec MakeSpecOfKnownWords(const protocol::TaskDescription& task, const SlotFolder& folder,
                             const SlotInfo& info, const Environment& host) {
  protocol::TaskDescription marked = task;
  for (auto& text : marked.argv)
    std::ranges::replace_if(text.parts, IsToldByOthers, std::string(1, kUnknown));
  return MakePreflightSpec(marked, folder, info, host);
}

}  // namespace tfdist::agent
