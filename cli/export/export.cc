#include "cli/export/export.h"

#include <fmt/format.h>

#include <cassert>
#include <map>

#include "base/failures.h"
#include "cli/export/engines.h"
#include "cli/export/yaml.h"
#include "cli/render/notes.h"

namespace tfdist::cli {
namespace {

constexpr size_t kLongestName = 63;  // of a label: RFC 1123
// A StatefulSet's pods have a label with its name and a hash: github.com/kubernetes/kubernetes issue 64023.
constexpr size_t kLongestObject = 52;
constexpr const char* kNowhere =
    "Without a counterpart: host_lost, on_host_lost, orphan_timeout, exclusive, spare hosts, "
    "within and backoff of "
    "[restart], output, log_limit, silent_after, engine, [check], [tensorboard], and the variables "
    "TFDIST_*.";

EngineFile FileFor(Engine engine, const ToExport& job, Notes& notes) {
  switch (engine) {
    case Engine::kKubernetes:
      return ForKubernetes(job, notes);
    case Engine::kTfJob:
      return ForTfJob(job, notes);
    case Engine::kCompose:
      return ForCompose(job, notes);
  }
  throw Bug("an engine of no kind");
}

std::string HeadOf(const Plan& plan, const EngineFile& file,
                   const std::vector<std::string>& notes) {
  std::string head =
      CommentLines(fmt::format("The job {}, as tfdist export has written it.", plan.name));
  for (const std::string& line : file.usage) head += CommentLines(line, "  ");
  if (!notes.empty()) head += "#\n" + CommentLines("Not carried over, or different here:");
  for (const std::string& note : notes) head += CommentLines(note, "- ");
  return head + "#\n" + CommentLines(kNowhere);
}

void RefuseEqualNames(const std::vector<std::vector<Pod>>& roles) {
  std::map<std::string, std::string> types;
  for (const std::vector<Pod>& role : roles) {
    const std::string& type = role.front().id.type;
    const auto [same, is_new] = types.emplace(DnsName(type), type);
    if (is_new) continue;
    throw UsageError(
        Phase::kConfig,
        fmt::format("{} and {} would both be called {} there", same->second, type, same->first),
        "give one of the roles another name");
  }
}

}  // namespace

std::string DnsName(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (plain) {
      name += c;
    } else if (c >= 'A' && c <= 'Z') {
      name += static_cast<char>(c + 'a' - 'A');
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  while (name.ends_with('-')) name.pop_back();
  // A Service's begins with a letter: RFC 1035.
  if (!name.empty() && (name[0] < 'a' || name[0] > 'z')) name.insert(0, "job-");
  if (!name.empty()) return name;
  throw UsageError(Phase::kConfig,
                   fmt::format("{} has no letter or digit, of which names are made there", text),
                   "--name NAME");
}

std::string HostThere(Engine engine, const std::string& job, const TaskId& task) {
  std::string own = fmt::format("{}-{}", DnsName(task.type), task.index);
  if (engine == Engine::kCompose) return own;
  const std::string name = DnsName(job);
  std::string host = fmt::format("{}-{}", name, own);
  const size_t object = name.size() + 1 + DnsName(task.type).size();
  if (host.size() > kLongestName || object > kLongestObject) {
    throw UsageError(
        Phase::kConfig,
        fmt::format(
            "{} is too long a name there: {} characters, or {} without the index, are the most",
            host, kLongestName, kLongestObject),
        "--name NAME: a shorter one");
  }
  return engine == Engine::kKubernetes ? fmt::format("{}.{}", host, name) : host;
}

Exported ExportTo(Engine engine, const Plan& plan, const Plan& apart) {
  Notes notes;
  const auto roles = PodsOf(plan, apart, notes);
  assert(!roles.empty());
  RefuseEqualNames(roles);
  const EngineFile file = FileFor(engine, {DnsName(plan.name), plan, roles}, notes);
  Exported exported{HeadOf(plan, file, notes.all()), notes.all()};
  for (const auto& document : file.documents) {
    if (file.documents.size() > 1) exported.text += "---\n";
    exported.text += ToYaml(document);
  }
  return exported;
}

}  // namespace tfdist::cli
