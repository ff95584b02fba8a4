#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/size_text.h"
#include "cli/check/findings.h"
#include "cli/check/host_check.h"
#include "cli/commands/commands.h"
#include "cli/deploy/plan_hash.h"
#include "cli/deploy/workdir_parts.h"
#include "cli/exit_codes.h"
#include "cli/find/adopt_job.h"
#include "cli/find/kept_files.h"
#include "cli/hosts/host_names.h"
#include "cli/job/job_record.h"
#include "cli/plan/host_count.h"
#include "cli/render/settings.h"
#include "cli/render/table.h"
#include "cli/show/kept_text.h"
#include "cli/show/print_json.h"
#include "cli/show/report.h"
#include "cli/show/slow_notice.h"
#include "cli/show/workdir_look.h"
#include "cli/stream/host_fold.h"
#include "cli/stream/print.h"
#include "wire/data.h"

namespace tfdist::cli {
namespace {

using nlohmann::json;
using protocol::PortFact;

size_t FreePorts(const protocol::HostFacts& facts) {
  return std::count_if(facts.ports.begin(), facts.ports.end(),
                       [](const PortFact& port) { return !port.trouble; });
}

size_t Reached(const HostReport& report) {
  return report.unreached ? report.targets.size() - report.unreached->size() : 0;
}

// The table ---------------------------------------------------------------------------------------

std::string DiskSize(uint64_t bytes) {
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  return bytes < 10 * kGiB ? fmt::format("{:.1f} GiB", static_cast<double>(bytes) / kGiB)
                           : fmt::format("{} GiB", bytes / kGiB);
}

std::string PythonWords(const protocol::PythonFact& python) {
  std::string words = python.version.empty() ? "?" : python.version;
  for (const auto& [package, version] : python.packages) {
    words += fmt::format(", {} {}", package, version.empty() ? "-" : version);
  }
  return words;
}

std::vector<std::string> Row(const std::string& host, const HostReport& report, bool with_python) {
  std::vector<std::string> row = {
      Harmless(host), report.failure ? std::string(PhaseName(report.failure->phase())) : "ok"};
  if (!report.facts) {
    row.resize(with_python ? 8 : 7, "-");
    return row;
  }
  const protocol::HostFacts& facts = *report.facts;
  row.push_back(DiskSize(facts.disk_free_bytes));
  row.push_back(fmt::format("{} of {} free", FreePorts(facts), facts.ports.size()));
  row.push_back(report.targets.empty()
                    ? "-"
                    : fmt::format("{} of {}", Reached(report), report.targets.size()));
  row.push_back(
      facts.gpus.empty() && !facts.gpu_trouble.empty() ? "?" : std::to_string(facts.gpus.size()));
  row.push_back(
      report.clock
          ? fmt::format("{:+.3f} s", std::chrono::duration<double>(report.clock->ahead).count())
          : "-");
  if (with_python) row.push_back(facts.python ? Harmless(PythonWords(*facts.python)) : "-");
  return row;
}

void PrintTable(const Plan& plan, const std::vector<HostReport>& reports) {
  const bool with_python = !plan.python_packages.empty();
  std::vector<std::vector<std::string>> rows = {
      {"HOST", "SSH", "DISK", "PORTS", "REACHES", "GPUS", "CLOCK"}};
  if (with_python) rows[0].emplace_back("PYTHON");
  for (size_t slot = 0; slot < reports.size(); ++slot) {
    rows.push_back(Row(plan.hosts[slot].name, reports[slot], with_python));
  }
  PrintLines(AlignColumns(rows, StdoutColumns()));
}

// The findings ------------------------------------------------------------------------------------

std::string_view Word(Severity severity) {
  return severity == Severity::kError ? "error" : "warning";
}

void PrintOne(std::string_view word, const Error& error) {
  if (error.host().empty()) {
    Print("{}: {}\n", word, error.cause());
  } else {
    Print("{}: {}: {}\n", word, error.host(), error.cause());
  }
  if (!error.remedy().empty()) Print("  try: {}\n", error.remedy());
}

// As PrintErrors (report.h): what many hosts share is said once.
void PrintFindings(const std::vector<Finding>& findings, Severity severity) {
  std::vector<Error> errors;
  for (const Finding& finding : findings) {
    if (finding.severity != severity) continue;
    errors.push_back(Error(Phase::kRun, finding.check + ": " + finding.what, finding.remedy)
                         .WithHost(finding.host));
  }
  for (const FoldedError& folded : FoldErrors(errors)) {
    PrintOne(Word(severity), folded.all.front());
    if (!folded.elsewhere.empty()) Print("  {}\n", folded.elsewhere);
  }
}

size_t Count(const std::vector<Finding>& findings, Severity severity) {
  return std::count_if(findings.begin(), findings.end(),
                       [severity](const Finding& one) { return one.severity == severity; });
}

// Where the set-up has been run already, and where `up` would run it.
void PrintSetUp(const Plan& plan, const std::vector<HostReport>& reports) {
  if (!plan.set_up) return;
  std::vector<std::string> made;
  std::vector<std::string> to_run;
  for (size_t slot = 0; slot < reports.size(); ++slot) {
    if (!reports[slot].facts) continue;
    (reports[slot].facts->set_up_made ? made : to_run).push_back(plan.hosts[slot].name);
  }
  Print("set-up: {}\n", SetUpText(plan));
  if (!made.empty()) Print("  there already on {}\n", FoldHosts(made));
  if (!to_run.empty()) Print("  up will run it on {}\n", FoldHosts(to_run));
}

// "docker 20.10.24, there already", "podman 4.3.1, up will pull it; 65 GiB free"
std::string ImageOnHostText(const protocol::ImageFact& image) {
  const std::string room =
      image.disk_free_bytes == 0 ? "" : fmt::format("; {} free", DiskSize(image.disk_free_bytes));
  const std::string_view way =
      image.image.starts_with(protocol::kSentImages) ? ", up will send it" : ", up will pull it";
  return Harmless(image.engine) +
         (image.is_there ? ", there already" : fmt::format("{}{}", way, room));
}

// Hosts of which the same is to be said, together.
void PrintImages(const Plan& plan, const std::vector<HostReport>& reports) {
  std::map<std::string, std::map<std::string, std::vector<std::string>>> images;
  for (size_t slot = 0; slot < reports.size(); ++slot) {
    if (!reports[slot].facts) continue;
    for (const protocol::ImageFact& image : reports[slot].facts->images) {
      images[Harmless(image.image)][ImageOnHostText(image)].push_back(plan.hosts[slot].name);
    }
  }
  for (const auto& [image, texts] : images) {
    Print("image: {}\n", image);
    for (const auto& [text, hosts] : texts) Print("  on {}: {}\n", FoldHosts(hosts), text);
  }
}

// As the first host has counted it: the findings name those that differ.
std::string DataCount(const std::string& name, const std::vector<HostReport>& reports) {
  for (const HostReport& report : reports) {
    if (!report.facts) continue;
    for (const protocol::DataFact& fact : report.facts->data) {
      if (fact.name != name || !fact.found.all) continue;
      return fmt::format(", {}, {}", Counted(fact.found.files, "file"), SizeText(fact.found.bytes));
    }
  }
  return "";
}

void PrintData(const Plan& plan, const std::vector<HostReport>& reports) {
  for (const DataPlan& data : plan.data) {
    Print("data: {}{}\n", DataText(plan, data), DataCount(data.name, reports));
  }
}

void PrintSummary(size_t hosts, size_t errors, size_t warnings) {
  if (errors + warnings == 0) {
    Print("{}: nothing found that would stop the job\n", Counted(hosts, "host"));
  } else {
    Print("{}: {}, {}\n", Counted(hosts, "host"), Counted(errors, "error"),
          Counted(warnings, "warning"));
  }
}

// JSON --------------------------------------------------------------------------------------------

json PortsJson(const protocol::HostFacts& facts) {
  json ports = json::array();
  for (const PortFact& port : facts.ports) {
    ports.push_back({{"port", port.port},
                     {"task", port.task},
                     {"free", !port.trouble},
                     {"why", port.trouble ? port.trouble->why : ""}});
  }
  return ports;
}

json UnreachedJson(const Plan& plan, const HostReport& report) {
  json unreached = json::array();
  for (const auto& failure : report.unreached.value_or(std::vector<protocol::Unreached>())) {
    const protocol::Target& target = report.targets[failure.target];
    unreached.push_back({{"host", plan.hosts[static_cast<size_t>(target.slot)].name},
                         {"port", target.port},
                         {"failure", protocol::ReachFailureName(failure.failure)},
                         {"why", failure.why}});
  }
  return unreached;
}

json DataJson(const std::vector<protocol::DataFact>& facts) {
  json data = json::array();
  for (const protocol::DataFact& fact : facts) {
    data.push_back({{"name", fact.name},
                    {"file_count", fact.found.files},
                    {"bytes", fact.found.bytes},
                    {"counted", fact.found.all}});
  }
  return data;
}

json ImagesJson(const std::vector<protocol::ImageFact>& facts) {
  json images = json::array();
  for (const protocol::ImageFact& fact : facts) {
    images.push_back(
        {{"image", fact.image},
         {"engine", fact.engine},
         {"is_there", fact.is_there},
         {"disk_free_bytes", fact.disk_free_bytes == 0 ? json() : json(fact.disk_free_bytes)}});
  }
  return images;
}

json HostJson(const Plan& plan, const std::string& name, const HostReport& report) {
  json host = {{"host", name},
               {"state", report.failure ? PhaseName(report.failure->phase()) : "ok"},
               {"folder", report.base}};
  if (report.clock) host["clock_offset_ns"] = report.clock->ahead.count();
  if (!report.facts) return host;
  host["disk_free_bytes"] = report.facts->disk_free_bytes;
  host["ports"] = PortsJson(*report.facts);
  host["target_count"] = report.targets.size();
  host["unreached"] = UnreachedJson(plan, report);
  host["gpus"] = report.facts->gpus;
  host["set_up_made"] = plan.set_up ? json(report.facts->set_up_made) : json();
  host["data"] = DataJson(report.facts->data);
  host["images"] = ImagesJson(report.facts->images);
  if (const auto& python = report.facts->python) {
    host["python"] = {
        {"program", python->program}, {"version", python->version}, {"packages", json::object()}};
    for (const auto& [package, version] : python->packages) {
      host["python"]["packages"][package] = version;
    }
  }
  return host;
}

void PrintCheckAsJson(const Plan& plan, const std::optional<std::string>& running,
                      const std::vector<HostReport>& reports,
                      const std::vector<Finding>& findings) {
  json value = {{"name", plan.name},
                {"job", running ? json(*running) : json()},
                {"error_count", Count(findings, Severity::kError)},
                {"warning_count", Count(findings, Severity::kWarning)},
                {"findings", json::array()},
                {"hosts", json::array()}};
  for (const Finding& finding : findings) {
    value["findings"].push_back({{"severity", Word(finding.severity)},
                                 {"check", finding.check},
                                 {"host", finding.host},
                                 {"what", finding.what},
                                 {"remedy", finding.remedy}});
  }
  for (size_t slot = 0; slot < reports.size(); ++slot) {
    value["hosts"].push_back(HostJson(plan, plan.hosts[slot].name, reports[slot]));
  }
  PrintJson(value);
}

// Files of one size may have one content.
WorkSize SizeOf(const WorkdirListing& listing) {
  WorkSize work{.bytes = listing.bytes, .entries = listing.entries.size()};
  std::set<uint64_t> sizes;
  for (const WorkdirEntry& entry : listing.entries) {
    if (entry.size_bytes() < kLargeFileBytes || !sizes.insert(entry.size_bytes()).second) continue;
    work.large_bytes += entry.size_bytes();
  }
  return work;
}

// Scripts that no task would find.
std::vector<Finding> FindingsOfWorkdir(const WorkdirLook& look) {
  std::vector<Finding> findings;
  for (const WorkdirWarning& warning : look.certain) {
    findings.push_back({Severity::kError, "command", "", warning.text, warning.remedy});
  }
  return findings;
}

// As `up` refuses it. Where another job has the name, or `up` joins one, that is another matter.
std::vector<Finding> FindingsOfKept(const Plan& plan, const std::vector<HostReport>& reports) {
  std::vector<KeptOnHost> strange;
  for (size_t slot = 0; slot < reports.size(); ++slot) {
    const auto& facts = reports[slot].facts;
    if (facts && facts->taken) return {};
    if (facts && facts->kept && facts->kept->kept_by.is_stranger)
      strange.push_back({plan.hosts[slot].name, facts->kept->kept, facts->kept->kept_by});
  }
  std::vector<Finding> findings;
  const auto add = [&](Severity severity, const Error& why) {
    findings.push_back({severity, "keep", "", why.cause(), why.remedy()});
  };
  if (!strange.empty()) add(Severity::kError, KeptByStrangers(plan.name, strange));
  JobRecord record = MakeRecord(plan, "", "");
  if (plan.workdir) record.origin.workdir = plan.workdir->string();
  if (const auto why = KeptByAnotherProject(record, LoadRecords(), plan.name_is_made))
    add(plan.name_is_made ? Severity::kError : Severity::kWarning, *why);
  return findings;
}

// The newest job of the name, where this machine has no record of one that runs.
std::vector<JobRecord> JobsOfTheName(const Plan& plan) {
  std::vector<JobRecord> records = LoadRecords();
  std::erase_if(records, [&](const JobRecord& record) {
    return record.name != plan.name || !HasFirstHostOf(record, plan) || !record.last_seen.may_run();
  });
  if (!records.empty()) return records;
  for (const RemoteJob& job : JobsOn(plan.hosts[0], plan.ssh, plan.name))
    return {AdoptJob(plan, job.job)};
  return {};
}

// The id of the job that has the name on the first host, where `up` would join it.
std::optional<std::string> JobOfThisPlan(const Plan& plan, const HostReport& first) {
  if (!first.facts || !first.facts->taken) return std::nullopt;
  try {
    const SlowNotice notice("reading what the plan sends");
    const std::string hash = HashWithContent(plan);
    for (const JobRecord& record : JobsOfTheName(plan)) {
      if (record.plan_sha256 == hash) return record.id;
    }
  } catch (const Error&) {
    return std::nullopt;  // that the name is taken is an error then
  }
  return std::nullopt;
}

std::vector<HostReport> AskOrSay(const Plan& plan) {
  const SlowNotice notice(fmt::format("asking {}", Counted(CountHosts(plan.hosts), "host")));
  return AskHosts(plan, ClaimToKept(plan, false));
}

}  // namespace

int CheckCommand(const CheckArguments& arguments) {
  Plan plan = LoadPlan(arguments.source);
  AskForHostNames(plan.hosts, plan.ssh);
  const WorkdirLook workdir = WarnOfWorkdir(plan);
  std::vector<Finding> findings = FindingsOfWorkdir(workdir);
  const std::vector<HostReport> reports = AskOrSay(plan);
  const std::optional<std::string> running = JobOfThisPlan(plan, reports[0]);
  std::ranges::move(FindingsOf(plan, reports, running.has_value(), SizeOf(workdir.listing)),
                    std::back_inserter(findings));
  std::ranges::move(FindingsOfKept(plan, reports), std::back_inserter(findings));
  std::ranges::stable_sort(findings, {}, &Finding::severity);
  const size_t errors = Count(findings, Severity::kError);
  if (arguments.json) {
    PrintCheckAsJson(plan, running, reports, findings);
  } else {
    PrintTable(plan, reports);
    if (const auto text = AddressesText(plan.hosts, ChooseAddresses(plan, NamesThere(reports)));
        !text.empty())
      Print("{}\n", text);
    PrintSetUp(plan, reports);
    PrintImages(plan, reports);
    PrintData(plan, reports);
    PrintFindings(findings, Severity::kError);
    PrintFindings(findings, Severity::kWarning);
    if (running) Print("job {} runs already, from this plan: tfdist up joins it\n", *running);
    PrintSummary(CountHosts(plan.hosts), errors, findings.size() - errors);
  }
  return errors == 0 ? kExitSuccess : kExitHost;
}

}  // namespace tfdist::cli
