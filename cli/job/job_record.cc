#include "cli/job/job_record.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <tuple>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json_numbers.h"
#include "base/log.h"
#include "base/size_text.h"
#include "base/text.h"
#include "base/thread_annotations.h"
#include "cli/job/state_folder.h"
#include "cli/plan/container_clients.h"
#include "cli/render/render.h"
#include "job/first_cause.h"
#include "job/layout.h"

namespace tfdist::cli {
namespace {

using nlohmann::json;

constexpr size_t kRecordLimitBytes = 16 << 20;
constexpr int kRecordVersion = 2;
// A lock says to nobody that it is free, on a file system of the network least of all.
constexpr std::chrono::milliseconds kMarkPause{20};
// An `up` touches its mark when it is older than the first; one of another machine that is older than the second has no `up`
// any more. Far apart, as clocks of machines differ.
constexpr std::chrono::seconds kFreshFor{30};
constexpr std::chrono::minutes kDeadAfter{10};
constexpr std::chrono::seconds kStaleAfter = 3 * kFreshFor;

constexpr std::string_view kStateRemedy =
    "make room there, or set XDG_STATE_HOME to a folder in which you may write: what this machine "
    "knows of its jobs lies there";

std::filesystem::path JobsFolder() { return StateFolder() / "jobs"; }

// That there is no record is told only where that can be seen.
[[noreturn]] void ThrowUnreadable(const std::filesystem::path& folder, int error) {
  throw Error(Phase::kFiles, WithErrno(fmt::format("cannot read {}", folder.string()), error),
              "see that you may read it, and the folders above it, or set XDG_STATE_HOME to a "
              "folder of your own");
}

// A record names files that ssh runs commands from. Throws Error(kFiles) where another account has the folder, or it cannot be
// looked at.
void CheckJobsFolder() {
  struct stat found {};
  const std::filesystem::path folder = JobsFolder();
  const bool is_there = stat(folder.c_str(), &found) == 0;
  if (!is_there && errno != ENOENT) ThrowUnreadable(folder, errno);
  if (!is_there || found.st_uid == geteuid()) return;
  throw Error(Phase::kFiles,
              fmt::format("{} belongs to another account (uid {})", folder.string(), found.st_uid),
              "run tfdist as that account, or set XDG_STATE_HOME to a folder of your own");
}

// Throws Error(kFiles) with a remedy.
void MakeJobsFolder() try {
  CheckJobsFolder();
  MakePrivateFolder(JobsFolder());
} catch (const Error& error) {
  throw Error(error.phase(), error.cause(),
              error.remedy().empty() ? std::string(kStateRemedy) : error.remedy());
}

std::filesystem::path PathOf(std::string_view id) {
  return JobsFolder() / fmt::format("{}.json", id);
}

std::filesystem::path MarkPathOf(std::string_view id) {
  return JobsFolder() / fmt::format("{}.up", id);
}

json ToJson(const HostPlan& host) {
  return {{"name", host.name},
          {"address", host.address},
          {"ssh", host.ssh},
          {"ssh_user", host.ssh_user},
          {"ssh_port", host.ssh_port ? json(*host.ssh_port) : json()},
          {"transport", host.transport},
          {"slurm_job", host.slurm_job},
          {"local", host.local},
          {"spare", host.spare},
          {"slots", host.slots},
          {"gpus", host.gpus}};
}

HostPlan HostFromJson(const json& value) {
  HostPlan host;
  value.at("name").get_to(host.name);
  value.at("address").get_to(host.address);
  value.at("ssh").get_to(host.ssh);
  value.at("ssh_user").get_to(host.ssh_user);
  if (!value.at("ssh_port").is_null()) host.ssh_port = value.at("ssh_port").get<int>();
  // Records of earlier versions lack them.
  host.transport = value.value("transport", host.transport);
  host.slurm_job = value.value("slurm_job", host.slurm_job);
  host.slots = value.value("slots", host.slots);
  value.at("local").get_to(host.local);
  value.at("spare").get_to(host.spare);
  for (const json& gpu : value.at("gpus")) {  // numbers in records of earlier versions
    host.gpus.push_back(gpu.is_number_integer() ? std::to_string(gpu.get<int>())
                                                : gpu.get<std::string>());
  }
  return host;
}

json ToJson(const SshOptions& ssh) {
  return {{"user", ssh.user},
          {"port", ssh.port ? json(*ssh.port) : json()},
          {"identity_file", ssh.identity_file},
          {"config", ssh.config.string()},
          {"host_keys", ssh.host_keys},
          {"transport", ssh.transport},
          {"remote_dir", ssh.remote_dir}};
}

SshOptions SshFromJson(const json& value) {
  SshOptions ssh;
  value.at("user").get_to(ssh.user);
  if (!value.at("port").is_null()) ssh.port = value.at("port").get<int>();
  value.at("identity_file").get_to(ssh.identity_file);
  ssh.config = value.at("config").get<std::string>();
  value.at("host_keys").get_to(ssh.host_keys);
  ssh.transport = value.value("transport", ssh.transport);
  value.at("remote_dir").get_to(ssh.remote_dir);
  return ssh;
}

constexpr std::array<std::pair<LastSeen::Stage, std::string_view>, 5> kStageNames = {{
    {LastSeen::Stage::kStarting, "starting"},
    {LastSeen::Stage::kRunning, "running"},
    {LastSeen::Stage::kUnwatched, "unwatched"},
    {LastSeen::Stage::kEnded, "ended"},
    {LastSeen::Stage::kNotStarted, "not started"},
}};

std::string_view StageName(LastSeen::Stage stage) {
  return std::ranges::find(kStageNames, stage, &decltype(kStageNames)::value_type::first)->second;
}

json ToJson(const LastSeen& seen) {
  return {{"stage", StageName(seen.stage)},
          {"result", seen.result},
          {"why", seen.why},
          {"began_ns", seen.began_ns},
          {"ended_ns", seen.ended_ns},
          {"ahead_ns", seen.ahead_ns},
          {"may_have_begun", seen.may_have_begun}};
}

LastSeen LastSeenFromJson(const json& value) {
  LastSeen seen;
  const auto stage = value.at("stage").get<std::string>();
  for (const auto& [known, name] : kStageNames) {
    if (name == stage) seen.stage = known;
  }
  value.at("result").get_to(seen.result);
  value.at("why").get_to(seen.why);
  if (seen.why == protocol::kAllHaveSucceeded) seen.why.clear();  // an earlier version kept it
  value.at("began_ns").get_to(seen.began_ns);
  value.at("ended_ns").get_to(seen.ended_ns);
  // Records of earlier versions lack them.
  seen.ahead_ns = value.value("ahead_ns", int64_t{0});
  seen.may_have_begun = value.value("may_have_begun", true);
  return seen;
}

json ToJson(const JobOrigin& origin) {
  return {{"workdir", origin.workdir},
          {"workdir_hash", origin.workdir_hash},
          {"git_commit", origin.git_commit},
          {"git_changed", origin.git_changed},
          {"version", origin.version}};
}

JobOrigin OriginFromJson(const json& value) {
  JobOrigin origin;
  value.at("workdir").get_to(origin.workdir);
  value.at("workdir_hash").get_to(origin.workdir_hash);
  value.at("git_commit").get_to(origin.git_commit);
  value.at("git_changed").get_to(origin.git_changed);
  value.at("version").get_to(origin.version);
  return origin;
}

json ToJson(const JobRecord& record) {
  json hosts = json::array();
  for (const HostPlan& host : record.hosts) hosts.push_back(ToJson(host));
  json tasks = json::array();
  for (const auto& task : record.tasks) {
    tasks.push_back({{"task", task.id},
                     {"slot", task.slot},
                     {"settings", task.settings},
                     {"command", task.command},
                     {"folder", task.folder}});
  }
  return {{"version", kRecordVersion},
          {"id", record.id},
          {"name", record.name},
          {"plan_sha256", record.plan_sha256},
          {"file", record.file.string()},
          {"created", record.created},
          {"started_by", record.started_by},
          {"hosts", hosts},
          {"bases", record.bases},
          {"base_ids", record.base_ids},
          {"ssh", ToJson(record.ssh)},
          {"shared", record.shared},
          {"clients", record.clients},
          {"told_to_end", record.told_to_end},
          {"logdir", record.logdir},
          {"silent_after_ms", record.silent_after_ms},
          {"keeps", record.keeps},
          {"elsewhere", record.elsewhere},
          {"tasks", tasks},
          {"settings", record.settings},
          {"files", record.files},
          {"origin", ToJson(record.origin)},
          {"labels", record.labels},
          {"last_seen", ToJson(record.last_seen)}};
}

[[noreturn]] void RefuseRecord(std::string_view why) {
  throw Error(Phase::kFiles, std::string(why));
}

JobRecord RecordFromJson(const json& value) {
  if (value.at("version").get<int>() != kRecordVersion) {
    RefuseRecord("it was written by another version of tfdist");
  }
  JobRecord record;
  value.at("id").get_to(record.id);
  value.at("name").get_to(record.name);
  value.at("plan_sha256").get_to(record.plan_sha256);
  record.file = value.at("file").get<std::string>();
  value.at("created").get_to(record.created);
  for (const json& host : value.at("hosts")) record.hosts.push_back(HostFromJson(host));
  value.at("bases").get_to(record.bases);
  record.ssh = SshFromJson(value.at("ssh"));
  // Records of earlier versions lack them.
  record.base_ids = value.value("base_ids", record.base_ids);
  record.base_ids.resize(record.bases.size());
  record.started_by = value.value("started_by", "");
  record.shared = value.value("shared", record.shared);
  record.clients = value.value("clients", record.clients);
  record.told_to_end = value.value("told_to_end", record.told_to_end);
  record.logdir = value.value("logdir", record.logdir);
  record.silent_after_ms = value.value("silent_after_ms", record.silent_after_ms);
  record.keeps = value.value("keeps", false);
  record.elsewhere = value.value("elsewhere", false);
  record.labels = value.value("labels", record.labels);
  record.settings = value.value("settings", record.settings);
  for (const json& task : value.at("tasks")) {
    record.tasks.push_back({task.at("task").get<std::string>(), task.at("slot").get<int>(),
                            task.value("settings", Settings()), task.value("command", ""),
                            task.value("folder", "")});
  }
  value.at("files").get_to(record.files);
  if (value.contains("origin")) record.origin = OriginFromJson(value.at("origin"));
  record.last_seen = LastSeenFromJson(value.at("last_seen"));
  return record;
}

// What others rely on when they look up a task's host or the record's own file.
void ExpectCoherent(const JobRecord& record) {
  if (record.id.empty() || record.id.find('/') != std::string::npos) {
    RefuseRecord("its id is not a job's");
  }
  if (record.bases.size() != record.hosts.size())
    RefuseRecord("its hosts and folders differ in number");
  for (const JobRecord::Task& task : record.tasks) {
    if (task.slot < 0 || static_cast<size_t>(task.slot) >= record.hosts.size()) {
      RefuseRecord(fmt::format("task {} has no host", task.id));
    }
  }
}

struct Moment {
  std::tm utc{};
  int milliseconds = 0;
};

Moment Now() {
  const int64_t now_ms = WallClockNanoseconds() / 1'000'000;
  return {fmt::gmtime(std::time_t{now_ms / 1000}), static_cast<int>(now_ms % 1000)};
}

// Some file systems have none: the mark tells by its age, and by its process.
bool HasNoLocks(int error) { return error == ENOSYS || error == EOPNOTSUPP || error == ENOLCK; }

// "MACHINE\nPID\n", as the `up` wrote it; what follows was added by those who want it to stop.
std::string MarkText(int mark) {
  std::array<char, 512> text{};
  const ssize_t got = pread(mark, text.data(), text.size(), 0);
  return {text.data(), static_cast<size_t>(std::max<ssize_t>(got, 0))};
}

// Some file systems keep locks to one machine: none of another's are seen here.
bool HasMadeIt(int mark) {
  const std::string text = MarkText(mark);
  return text.empty() || text.substr(0, text.find('\n')) == ThisMachine();
}

std::chrono::nanoseconds AgeOf(int mark) {
  struct stat found {};
  if (fstat(mark, &found) != 0) return {};
  return std::chrono::nanoseconds(WallClockNanoseconds()) -
         std::chrono::seconds(found.st_mtim.tv_sec) -
         std::chrono::nanoseconds(found.st_mtim.tv_nsec);
}

// Of this machine: whether the process that has made it is there.
bool Runs(int mark) {
  const std::string text = MarkText(mark);
  const size_t line = text.find('\n');
  const int pid = line == text.npos ? 0 : std::atoi(text.c_str() + line + 1);
  return pid > 0 && (kill(pid, 0) == 0 || errno != ESRCH);
}

// Another machine's lock is not to be seen on each file system: its mark tells by its age.
bool IsFree(int mark) {
  if (!HasMadeIt(mark)) return AgeOf(mark) > kDeadAfter;
  if (flock(mark, LOCK_SH | LOCK_NB) == 0) return true;
  if (!HasNoLocks(errno)) return false;
  // Another container of this machine may have that process: a mark that is kept fresh is held.
  return AgeOf(mark) > (Runs(mark) ? kDeadAfter : kStaleAfter);
}

// Leaves the mark as old as it is.
bool AskToStop(int mark) {
  struct stat found {};
  const bool known = fstat(mark, &found) == 0;
  if (write(mark, "stop\n", 5) < 0) return false;
  const std::array<timespec, 2> times = {found.st_atim, found.st_mtim};
  if (known) (void)futimens(mark, times.data());
  return true;
}

bool IsRemoved(int mark) {
  struct stat found {};
  return fstat(mark, &found) != 0 || found.st_nlink == 0;
}

// Invalid: there is none of this account.
UniqueFd OpenMark(std::string_view id, int flags) {
  UniqueFd mark(open(MarkPathOf(id).c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat found {};
  const bool is_own = mark.valid() && fstat(mark.get(), &found) == 0 && S_ISREG(found.st_mode) &&
                      found.st_uid == geteuid();
  return is_own ? std::move(mark) : UniqueFd();
}

std::string OwnerOf(int mark) {
  const std::string text = MarkText(mark);
  std::string_view rest = text;
  const std::string machine(TakeUpTo('\n', rest));
  return fmt::format("pid {} on {}", TakeUpTo('\n', rest), machine);
}

// nullopt: it is gone.
std::optional<JobRecord> ReadRecord(const std::filesystem::path& path) {
  const auto content = ReadOwnFileIfExists(path, kRecordLimitBytes);
  if (!content) return std::nullopt;
  return DecodeRecord(*content);
}

class Told {
 public:
  bool IsFirst(const std::string& path) {
    const MutexLock lock(mutex_);
    return paths_.insert(path).second;
  }

 private:
  Mutex mutex_;
  std::set<std::string> paths_ GUARDED_BY(mutex_);
};

// Once for each: a command may look every 50 ms.
void SayThatUnreadable(const std::filesystem::path& path, const Error& error) {
  static Told told;
  if (!told.IsFirst(path.string())) return;
  const std::string line = fmt::format(
      "tfdist: warning: {} cannot be read as the record of a job: {}\n  try: the job's hosts know "
      "it: tfdist list -H HOST, and commands take -H as well; or remove the file\n",
      path.string(), error.cause());
  WriteLogLine(line);
}

std::optional<JobRecord> LoadRecord(const std::filesystem::path& path) {
  try {
    return ReadRecord(path);
  } catch (const Error& error) {
    SayThatUnreadable(path, error);
    return std::nullopt;
  }
}

std::vector<std::filesystem::path> FilesOfRecords() {
  CheckJobsFolder();
  std::vector<std::filesystem::path> files;
  std::error_code error;
  std::filesystem::directory_iterator at(JobsFolder(), error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    if (at->path().extension() == ".json") files.push_back(at->path());
  }
  if (error && error.value() != ENOENT) ThrowUnreadable(JobsFolder(), error.value());
  return files;
}

}  // namespace

std::string CommandAsWritten(const Plan& plan, const TaskOnHost& task) {
  std::string command = CommandText(plan, task);
  ReplaceAll(command, "<jobdir>/runtime-cuda", "{runtime}");
  ReplaceAll(command, "<jobdir>/runtime", "{runtime}");
  ReplaceAll(command, "<jobdir>/work", "{workdir}");
  ReplaceAll(command, "<keep>", "{keep}");
  ReplaceAll(command, "<setup>", "{setup}");
  return command;
}

std::string FoldersOfHosts(const JobRecord& record) {
  std::set<std::string> folders;
  for (const JobRecord::Task& task : record.tasks) folders.insert(task.folder);
  folders.erase("");
  return fmt::format("{}", fmt::join(folders, ", "));
}

const std::string& BaseOf(const JobRecord& record, int slot) {
  const std::string& base = record.bases.at(static_cast<size_t>(slot));
  return base.empty() ? record.ssh.remote_dir : base;
}

std::string_view StateName(const LastSeen& seen) {
  return seen.stage == LastSeen::Stage::kEnded ? seen.result : StageName(seen.stage);
}

std::string StateWithWhy(const LastSeen& seen) {
  return fmt::format("{}{}{}", StateName(seen), seen.why.empty() ? "" : ": ", seen.why);
}

int64_t CreatedNanoseconds(const JobRecord& record) {
  std::tm time{};
  const char* rest = strptime(record.created.c_str(), "%Y-%m-%dT%H:%M:%S", &time);
  if (rest == nullptr) return 0;
  int milliseconds = 0;
  if (*rest == '.')
    std::from_chars(rest + 1, record.created.data() + record.created.size(), milliseconds);
  return static_cast<int64_t>(timegm(&time)) * 1'000'000'000 + int64_t{milliseconds} * 1'000'000;
}

std::string NewJobId(std::string_view name) {
  const Moment now = Now();
  return fmt::format("{}-{:%Y%m%dT%H%M%SZ}-{:03x}{}", name, now.utc, now.milliseconds,
                     RandomHex(2).substr(1));
}

bool IsJobId(std::string_view text) {
  const size_t dash = text.rfind('-', text.rfind('-') - 1);
  return dash != std::string_view::npos && layout::IsJobIdOf(text, text.substr(0, dash));
}

bool IsSamePlace(const HostPlan& host, const SshOptions& ssh, const HostPlan& other,
                 const SshOptions& other_ssh) {
  const auto place = [](const HostPlan& one, const SshOptions& options) {
    return std::tuple(
        one.local, one.ssh, one.address, one.ssh_user.empty() ? options.user : one.ssh_user,
        one.ssh_port ? one.ssh_port : options.port, options.config.string(), options.remote_dir);
  };
  return place(host, ssh) == place(other, other_ssh);
}

bool HasFirstHostOf(const JobRecord& record, const Plan& plan) {
  // A spare host may have taken the first one's place when the job began.
  return std::ranges::any_of(plan.hosts, [&](const HostPlan& host) {
    const bool may_be_first = &host == &plan.hosts[0] || host.spare;
    return may_be_first && IsSamePlace(record.hosts[0], record.ssh, host, plan.ssh);
  });
}

namespace {

bool IsOnePath(const std::filesystem::path& one, const std::filesystem::path& other) {
  std::error_code error;  // else they are compared as they are written
  const auto real = [&](const std::filesystem::path& path) {
    auto found = std::filesystem::weakly_canonical(path, error);
    return error ? path : found;
  };
  return real(one) == real(other);
}

}  // namespace

bool IsOfAnotherProject(const JobRecord& record, const Plan& plan) {
  const std::filesystem::path folder = plan.file.parent_path();
  const std::string& workdir = record.origin.workdir;
  if (plan.file.empty() || record.elsewhere || IsOnePath(record.file, plan.file)) return false;
  if (!record.file.empty() && !IsOnePath(record.file.parent_path(), folder)) return true;
  if (workdir.empty() || IsOnePath(workdir, plan.workdir.value_or(folder))) return false;
  return record.file.empty() ? !IsOnePath(workdir, folder) : plan.workdir.has_value();
}

std::string ProjectOf(const JobRecord& record) {
  return record.file.empty() ? record.origin.workdir : record.file.string();
}

bool HasHost(const JobRecord& record, const HostPlan& host, const SshOptions& ssh) {
  return std::ranges::any_of(
      record.hosts, [&](const HostPlan& its) { return IsSamePlace(its, record.ssh, host, ssh); });
}

BringUpMark::BringUpMark(std::string_view id) : path_(MarkPathOf(id)) {
  MakeJobsFolder();
  file_.Reset(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (!file_.valid() || (flock(file_.get(), LOCK_EX | LOCK_NB) != 0 && !HasNoLocks(errno))) {
    throw Error(Phase::kFiles, WithErrno(fmt::format("cannot make {}", path_.string()), errno),
                std::string(kStateRemedy));
  }
  owner_ = fmt::format("{}\n{}\n", ThisMachine(), getpid());
  [[maybe_unused]] const ssize_t put = write(file_.get(), owner_.data(), owner_.size());
}

BringUpMark::~BringUpMark() { (void)unlink(path_.c_str()); }

void BringUpMark::KeepFresh() const {
  if (AgeOf(file_.get()) > kFreshFor) (void)futimens(file_.get(), nullptr);
}

bool BringUpMark::IsAskedToStop() const { return MarkText(file_.get()).size() > owner_.size(); }

std::optional<std::string> StopBringUp(std::string_view id, TimePoint deadline) {
  const UniqueFd mark = OpenMark(id, O_RDWR | O_APPEND);
  if (!mark.valid() || IsFree(mark.get())) return std::nullopt;
  if (!AskToStop(mark.get())) return OwnerOf(mark.get());
  while (!IsRemoved(mark.get()) && !IsFree(mark.get())) {
    if (SystemClock().Now() > deadline) return OwnerOf(mark.get());
    std::this_thread::sleep_for(kMarkPause);
  }
  return std::nullopt;
}

std::optional<std::string> WhoBringsUp(const JobRecord& record) {
  if (record.last_seen.stage != LastSeen::Stage::kStarting) return std::nullopt;
  const UniqueFd mark = OpenMark(record.id, O_RDONLY);
  if (!mark.valid() || IsFree(mark.get())) return std::nullopt;
  return OwnerOf(mark.get());
}

bool IsLeftByItsUp(const JobRecord& record) {
  return record.last_seen.stage == LastSeen::Stage::kStarting && !WhoBringsUp(record);
}

bool HasNeverBegun(const JobRecord& record) {
  if (record.elsewhere || record.last_seen.may_have_begun) return false;
  if (record.last_seen.stage == LastSeen::Stage::kNotStarted) return true;
  if (!IsLeftByItsUp(record)) return false;
  // What was read of it before its `up` went may lack that it has begun.
  const auto now = LoadRecord(PathOf(record.id));
  return !now || !now->last_seen.may_have_begun;
}

std::vector<const JobRecord*> ThatMayRun(const std::vector<JobRecord>& records) {
  std::vector<const JobRecord*> found;
  for (const JobRecord& record : records) {
    const auto holds_its_name = [&](const JobRecord& other) {
      return other.last_seen.stage == LastSeen::Stage::kRunning && other.name == record.name &&
             IsSamePlace(other.hosts[0], other.ssh, record.hosts[0], record.ssh);
    };
    const bool is_refused = record.last_seen.stage == LastSeen::Stage::kStarting &&
                            std::ranges::any_of(records, holds_its_name);
    if (record.last_seen.may_run() && !is_refused && !IsLeftByItsUp(record)) {
      found.push_back(&record);
    }
  }
  return found;
}

JobRecord MakeRecord(const Plan& plan, std::string id, std::string plan_sha256) {
  JobRecord record;
  record.id = std::move(id);
  record.name = plan.name;
  record.plan_sha256 = std::move(plan_sha256);
  record.file = plan.file;
  const Moment now = Now();
  record.created = fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", now.utc, now.milliseconds);
  record.started_by = UserAndMachine();
  record.hosts = plan.hosts;
  record.bases.resize(plan.hosts.size());
  record.base_ids.resize(plan.hosts.size());
  record.ssh = plan.ssh;
  record.shared = plan.shared;
  record.keeps = std::ranges::any_of(plan.tasks, protocol::NamesKeptFolder<TaskOnHost>);
  record.clients = ContainerClientsOf(plan);
  record.last_seen.may_have_begun = false;
  record.logdir = plan.logdir;
  record.silent_after_ms = plan.silent_after_ms;
  record.settings = SettingsOf(plan);
  for (const TaskOnHost& task : plan.tasks) {
    record.tasks.push_back({ToString(task.id), task.slot, SettingsOf(plan, task),
                            CommandAsWritten(plan, task), FolderOfHost(plan, task)});
  }
  return record;
}

std::string StrangerWhoStarted(const JobRecord& record) {
  return !record.elsewhere && record.started_by == UserAndMachine() ? "" : record.started_by;
}

std::string EncodeRecord(const JobRecord& record) {
  return ToJson(record).dump(2, ' ', false, json::error_handler_t::replace);
}

JobRecord DecodeRecord(std::string_view text) {
  try {
    const json value = json::parse(text);
    if (!NumbersFit(value)) RefuseRecord("a number is out of range");
    JobRecord record = RecordFromJson(value);
    ExpectCoherent(record);
    return record;
  } catch (const json::exception&) {
    RefuseRecord("it is damaged");
  }
}

void SaveRecord(const JobRecord& record) {
  MakeJobsFolder();
  const std::string text = EncodeRecord(record);
  if (text.size() > kRecordLimitBytes) {  // no command would read it
    throw UsageError(
        Phase::kUsage,
        fmt::format("the record of this job, with the commands of its {} tasks, takes "
                    "{}, and may have at most {}",
                    record.tasks.size(), SizeText(text.size()), SizeText(kRecordLimitBytes)),
        "put long values into a file of the workdir, which the tasks read");
  }
  try {
    ReplaceFile(PathOf(record.id), text, 0600);
  } catch (const Error& error) {
    throw Error(error.phase(), error.cause(), std::string(kStateRemedy));
  }
}

void TrySaveRecord(const JobRecord& record) {
  static std::once_flag warned;
  try {
    SaveRecord(record);
  } catch (const Error& error) {
    std::call_once(warned, [&] {
      Log("warning: this machine does not note how job {} fares: {}", record.id, error.cause());
    });
  }
}

// A host that has named the id of another job speaks for its own hosts only.
std::optional<JobRecord> RecordNow(const JobRecord& record) {
  auto known = LoadRecord(PathOf(record.id));
  const bool is_it =
      known && IsSamePlace(known->hosts.at(0), known->ssh, record.hosts.at(0), record.ssh);
  return is_it ? std::move(known) : std::nullopt;
}

bool IsKnownHere(std::string_view id) { return std::filesystem::exists(PathOf(id)); }

void RemoveRecord(std::string_view id) {
  std::filesystem::remove(PathOf(id));
  std::filesystem::remove(MarkPathOf(id));
}

void NoteLastSeen(const JobRecord& record, const LastSeen& seen) {
  auto known = RecordNow(record);
  if (!known || known->last_seen == seen) return;
  if (known->last_seen.stage == LastSeen::Stage::kEnded) return;
  if (seen.stage == LastSeen::Stage::kStarting && seen.why.empty()) return;
  known->last_seen = seen;
  TrySaveRecord(*known);
}

void NoteToldToEnd(const JobRecord& record, const std::string& why) {
  auto known = RecordNow(record);
  if (!known || known->told_to_end == why) return;
  known->told_to_end = why;
  TrySaveRecord(*known);
}

std::string WhyToldToEnd(const JobRecord& record) {
  const auto known = RecordNow(record);
  return known ? known->told_to_end : "";
}

std::vector<JobRecord> LoadRecords() {
  std::vector<JobRecord> records;
  for (const std::filesystem::path& path : FilesOfRecords()) {
    if (auto record = LoadRecord(path)) records.push_back(std::move(*record));
  }
  std::sort(records.begin(), records.end(), [](const JobRecord& a, const JobRecord& b) {
    return std::tie(a.created, a.id) > std::tie(b.created, b.id);
  });
  return records;
}

size_t CountUnreadableRecords() {
  return static_cast<size_t>(std::ranges::count_if(FilesOfRecords(), [](const auto& path) {
    try {
      (void)ReadRecord(path);
      return false;
    } catch (const Error&) {
      return true;
    }
  }));
}

std::string WhatANewHostLacks(const JobRecord& record, int slot, int seat) {
  if (!record.keeps) return "";
  const auto name = [&](int at) { return record.hosts.at(static_cast<size_t>(at)).name; };
  return fmt::format(
      "{} has only its own {{keep}}: it lacks what the tasks have kept on {}, unless both share "
      "that "
      "folder",
      name(seat), name(slot));
}

}  // namespace tfdist::cli
