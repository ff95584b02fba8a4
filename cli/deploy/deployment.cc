#include "cli/deploy/deployment.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/failures.h"
#include "base/hash.h"
#include "base/json_fields.h"
#include "cli/deploy/runtime_program.h"
#include "cli/deploy/shared_check.h"
#include "cli/job/state_folder.h"
#include "cli/link/agent_start.h"
#include "cli/link/bootstrap.h"
#include "cli/link/embedded_agent.h"
#include "cli/plan/containers.h"
#include "cli/plan/data.h"
#include "cli/plan/describe.h"
#include "cli/plan/host_count.h"
#include "cli/plan/runtime_choice.h"
#include "wire/data.h"
#include "wire/image_pull.h"
#include "wire/refusal.h"
#include "wire/room.h"
#include "wire/set_up.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;
using protocol::Json;
using std::chrono::milliseconds;
namespace type = protocol::type;

// Limits of the steps; those of connecting are in cli/ssh. An upload may take its time.
constexpr auto kStartLimit = 120s;
constexpr StartLimits kStartLimits{.shell = kStartLimit, .boot = 60s, .hello = 60s};
constexpr auto kUploadLimit = 15min;
// From here on it pays that a file crosses the user's uplink once.
constexpr uint64_t kHandOnBytes = 8 << 20;
constexpr auto kFetchLook = 200ms;
// A host to which nothing has come for so long, though slot 0 has it all, gets it from here.
constexpr auto kFetchSilence = 10s;
constexpr auto kDescribeLimit = 120s;
constexpr auto kPullLimit = 30min;
constexpr auto kPullLook = 100ms;
constexpr auto kTrialsLimit = 300s;  // of its images, by the host's container engine
constexpr auto kPortsLimit = 70s;    // TIME_WAIT lasts for 60 s
constexpr auto kPortsLook = 500ms;
constexpr auto kSetUpLook = 200ms;
constexpr auto kDataLook = 20ms;
constexpr auto kSlowDataLook = 200ms;
constexpr auto kDataLimit = 60min;   // the host gives tar(1) half of it
constexpr size_t kMostTroubles = 8;  // of a host: more is nothing that an agent says
constexpr auto kDialLimit = 30s;     // the name of slot 0 is resolved there as well
constexpr auto kNamesLimit = 30s;
constexpr auto kSharedLimit = 30s;  // of a network file system that wakes up
constexpr auto kCommitLimit = 30s;
constexpr auto kAbortLimit = 5s;
// An agent that dies again and again is given up by the host after 10 s.
constexpr auto kAbortAgainLimit = 25s;
constexpr auto kUncommittedLimit = 60s;
constexpr size_t kMarkBytes = 16;

TimePoint In(milliseconds span) { return SystemClock().Now() + span; }

constexpr uint64_t kBytesPerMillisecond = 5000;  // of a slow disk

// A host reads, hashes and copies what is in the description.
milliseconds LimitFor(const protocol::HostDescription& description) {
  uint64_t bytes = 0;
  for (const auto& archive : description.workdir) bytes += archive.size_bytes;
  for (const auto& file : description.files) bytes += file.size_bytes;
  const bool has_image = std::ranges::any_of(
      description.tasks, [](const auto& task) { return task.container.has_value(); });
  return kDescribeLimit + (has_image ? kTrialsLimit : 0s) +
         milliseconds(bytes / kBytesPerMillisecond);
}

bool IsFirstOfItsName(const std::vector<HostPlan>& hosts, int slot) {
  const std::string& name = hosts[static_cast<size_t>(slot)].name;
  return std::ranges::find(hosts, name, &HostPlan::name) - hosts.begin() == slot;
}

void SetAddresses(const std::vector<HostAddress>& addresses,
                  std::vector<protocol::SlotPlan>& slots) {
  for (size_t slot = 0; slot < addresses.size(); ++slot)
    slots[slot].address = addresses[slot].address;
}

uint64_t ContentBytes(const std::vector<protocol::FileDescription>& files) {
  uint64_t bytes = 0;
  for (const auto& file : files) bytes += file.size_bytes;
  return bytes;
}

milliseconds LimitFor(const std::vector<protocol::DataOffer>& offers) {
  uint64_t bytes = 0;
  for (const auto& offer : offers) bytes += ContentBytes(offer.files) + offer.unpacked_bytes;
  return kDescribeLimit + milliseconds(bytes / kBytesPerMillisecond);
}

// Hosts in one message.
constexpr size_t kMostNamed = 16;

Error DifferentImages(const std::string& image,
                      const std::map<std::string, std::vector<std::string>>& hosts) {
  constexpr size_t kShownDigits = 12;
  std::vector<std::string> groups;
  for (const auto& [id, names] : hosts) {
    groups.push_back(
        fmt::format("{} on {}", id.substr(0, kShownDigits), HostNames(names, kMostNamed)));
  }
  return {Phase::kCommand,
          fmt::format("image {} is not the same on all hosts: {}", image, fmt::join(groups, "; ")),
          "pull it anew on all hosts, or name it by its digest: NAME@sha256:..."};
}

// Where an image of this machine is for another architecture than the host.
std::optional<protocol::Trouble> ImageTrouble(const Plan& plan, int slot,
                                              std::string_view machine) {
  const std::string own(machine == "x86_64" ? "amd64" : machine == "aarch64" ? "arm64" : machine);
  const bool is_spare = plan.hosts[static_cast<size_t>(slot)].spare;
  for (const TaskOnHost& task : plan.tasks) {
    if (!task.own_image || (!is_spare && task.slot != slot)) continue;
    const ImagePlan& image = plan.images[*task.own_image];
    if (image.architecture == own) continue;
    return protocol::Trouble{
        .why = fmt::format("image {} of {} is for {}, and this host is {}", SourceText(image),
                           ToString(task.id), image.architecture, own),
        .remedy = "build the image for that host's architecture"};
  }
  return std::nullopt;
}

Error PullTakesTooLong(const std::string& image) {
  return {Phase::kCommand,
          fmt::format("image {} was not there after {} min", image,
                      std::chrono::minutes(kPullLimit).count()),
          "pull it by hand on that host"};
}

// Each image once for each engine that is wanted.
std::vector<protocol::ContainerDescription> ContainersOf(
    const protocol::HostDescription& description) {
  std::map<std::pair<std::string, protocol::EngineKind>, protocol::ContainerDescription> containers;
  for (const auto& task : description.tasks) {
    if (!task.container) continue;
    containers.try_emplace({task.container->image, task.container->engine}, *task.container);
  }
  std::vector<protocol::ContainerDescription> all;
  for (auto& [key, container] : containers) all.push_back(std::move(container));
  return all;
}

// Who ends the job on that host also says what is left there.
bool IsEndedBySomebody(const std::exception& error) {
  const auto* refusal = dynamic_cast<const protocol::Refusal*>(&error);
  return refusal != nullptr && refusal->kind() == protocol::RefusalKind::kEnded;
}

Deployment::Failure FailureOf(const std::exception& thrown, const std::string& host) {
  const auto* error = dynamic_cast<const Error*>(&thrown);
  // Else out of memory, or of threads.
  Deployment::Failure failure{
      .error = error != nullptr ? *error : Error(Phase::kInternal, thrown.what()), .refusal = {}};
  failure.error = failure.error.WithHost(host);
  if (const auto* refusal = dynamic_cast<const protocol::Refusal*>(&thrown)) {
    failure.refusal = refusal->kind();
  }
  failure.lost = dynamic_cast<const LostConnection*>(&thrown) != nullptr;
  failure.unreachable = dynamic_cast<const Unreachable*>(&thrown) != nullptr;
  return failure;
}

}  // namespace

Deployment::Deployment(const Plan& plan, const Cargo& cargo, std::string rehearsed_for)
    : plan_(plan),
      cargo_(cargo),
      rehearsed_for_(std::move(rehearsed_for)),
      asked_(plan.hosts.size()),
      prepared_(plan.hosts.size()),
      listening_(plan.hosts.size()),
      connected_(plan.hosts.size()),
      equipped_(plan.hosts.size()),
      settled_(plan.hosts.size()),
      running_(plan.hosts.size()),
      has_aliases_(HasAliases(plan.hosts)),
      asks_first_(has_aliases_ || cargo.kept.has_value() || !AllParts().empty()),
      hands_on_(HandsOn()),
      mark_(RandomHex(kMarkBytes)),
      done_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  for (size_t i = 0; i < plan.hosts.size(); ++i) {
    hosts_.push_back(std::make_unique<Host>());
    hosts_.back()->steps.Begin("start");
  }
  for (size_t i = 0; i < hosts_.size(); ++i) {
    const int slot = static_cast<int>(i);
    try {
      hosts_[i]->thread = std::thread([this, slot] { Run(slot); });
    } catch (const std::system_error& error) {
      FailToBegin(slot, error.what());
    }
  }
}

void Deployment::FailToBegin(int slot, const std::string& why) {
  Host& host = *hosts_[static_cast<size_t>(slot)];
  host.failure =
      FailureOf(Error(Phase::kInternal, "cannot start a thread: " + why, "raise ulimit -u"),
                plan_.hosts[static_cast<size_t>(slot)].name);
  host.failed = true;
  host.steps.Begin(nullptr);
  (asks_first_ ? asked_ : prepared_).Arrive(false);
  Finish();
}

void Deployment::Finish() {
  if (--running_ == 0) eventfd_write(done_fd_.get(), 1);
}

Deployment::~Deployment() {
  for (auto& host : hosts_) {
    if (host->thread.joinable()) host->thread.join();
  }
}

void Deployment::Cancel() {
  cancelled_ = true;
  ShutGates();
}

void Deployment::ShutGates() {
  for (Gate* gate : {&asked_, &prepared_, &listening_, &connected_, &equipped_}) gate->Cancel();
}

std::map<std::string, std::vector<std::string>> Deployment::Busy() const {
  std::map<std::string, std::vector<std::string>> busy;
  for (size_t i = 0; i < hosts_.size(); ++i) {
    if (const char* step = hosts_[i]->steps.current()) busy[step].push_back(plan_.hosts[i].name);
  }
  return busy;
}

uint64_t Deployment::PulledBytes() const {
  uint64_t bytes = 0;
  for (const auto& host : hosts_) bytes += host->pulled_bytes;
  return bytes;
}

std::vector<std::string> Deployment::HostsNotRolledBack() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < hosts_.size(); ++i) {
    if (hosts_[i]->touched) names.push_back(plan_.hosts[i].name);
  }
  return names;
}

Deployment::Outcome Deployment::TakeOutcome() {
  // Looking also makes what the threads have written visible here, which the eventfd alone does
  // not.
  if (running_ != 0) throw Bug("the deployment is still going on");
  Outcome outcome;
  std::vector<std::optional<protocol::SharedFolder>> shared;
  outcome.committed = committed_;
  outcome.in_doubt = in_doubt_;
  outcome.ended = ended_;
  outcome.taken_slot = FirstTaken().value_or(0);
  outcome.name_taken = hosts_[outcome.taken_slot]->name_taken;
  for (auto& host : hosts_) {
    if (host->failure && !SaysTheSameAsTheFirst(*host)) outcome.failures.push_back(*host->failure);
    if (host->roll_back_error) outcome.roll_back_errors.push_back(*host->roll_back_error);
    outcome.bases.push_back(host->attached.hello.base);
    outcome.base_ids.push_back(host->base_id);
    for (const std::string& folder : host->removed) {
      outcome.removed.push_back(
          fmt::format("{}: {}", plan_.hosts[outcome.bases.size() - 1].name, folder));
    }
    shared.push_back(std::move(host->shared));
    outcome.spent.push_back(host->steps.spent());
  }
  outcome.addresses = AddressesText(plan_.hosts, addresses_);
  if (!addresses_.empty()) outcome.warnings = WarningsOf(plan_, addresses_, NamesThere());
  for (const SlotsOfMachine& machine : machines_) {
    const bool is_an_error = plan_.needs_ports && !machine.shared_ports.empty();
    if (machine.names.size() > 1 && !is_an_error)
      outcome.warnings.push_back(SharedBy(plan_, machine));
  }
  AddTroubles(outcome.warnings);
  AddFilesFromHere(outcome.warnings);
  for (const auto& host : hosts_) {
    if (host->kept) outcome.kept.push_back(*host->kept);
  }
  outcome.warnings_of_shared = CompareShared(plan_, shared);
  if (committed_) outcome.coordinator = std::move(hosts_[0]->attached);
  return outcome;
}

// What several hosts say alike is said once.
void Deployment::AddTroubles(std::vector<NameWarning>& warnings) const {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> hosts;
  for (size_t slot = 0; slot < hosts_.size(); ++slot) {
    const auto& troubles = hosts_[slot]->troubles;
    for (size_t at = 0; at < std::min(troubles.size(), kMostTroubles); ++at) {
      std::vector<std::string>& names = hosts[{troubles[at].why, troubles[at].remedy}];
      const std::string& name = plan_.hosts[slot].name;
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  for (const auto& [trouble, names] : hosts) {
    const auto& [why, remedy] = trouble;
    warnings.push_back({fmt::format("{}: {}", HostNames(names, kMostNamed), why), remedy});
  }
}

void Deployment::AddFilesFromHere(std::vector<NameWarning>& warnings) const {
  for (size_t slot = 0; slot < hosts_.size(); ++slot) {
    if (hosts_[slot]->not_from_first.empty()) continue;
    warnings.push_back(
        {fmt::format("{}: got the job's files from this machine, not from {}: {}",
                     plan_.hosts[slot].name, plan_.hosts[0].name, hosts_[slot]->not_from_first),
         "look at the network between the two: tfdist check"});
  }
}

std::optional<size_t> Deployment::FirstTaken() const {
  const auto taken =
      std::ranges::find_if(hosts_, [](const auto& host) { return host->name_taken.has_value(); });
  if (taken == hosts_.end()) return std::nullopt;
  return static_cast<size_t>(taken - hosts_.begin());
}

// A job of that name runs on all its hosts, and each of them refuses a second one.
bool Deployment::SaysTheSameAsTheFirst(const Host& host) const {
  const Host& first = *hosts_[FirstTaken().value_or(0)];
  return &host != &first && host.name_taken && first.name_taken &&
         host.name_taken->job() == first.name_taken->job();
}

void Deployment::Run(int slot) {
  Host& host = *hosts_[static_cast<size_t>(slot)];
  BringUp(slot);
  host.steps.Begin(nullptr);
  // Other hosts' links are not needed any more: from now on slot 0 speaks for all.
  if (slot != 0) {
    host.attached.link.reset();
    host.attached.transport.reset();
  }
  Finish();
}

void Deployment::BringUp(int slot) {
  Host& host = *hosts_[static_cast<size_t>(slot)];
  const bool first = slot == 0;
  const auto start = [&] {
    StartOnHost(slot);
    AskForNames(slot);
    LookAtKept(slot);
  };
  const bool ready = (!asks_first_ || Pass(asked_, slot, "start", start)) &&
                     Pass(prepared_, slot, "start",
                          [&] {
                            asks_first_ ? TakeAddress(slot) : start();
                            host.description = DescriptionOf(slot);
                            AskWhatIsMissing(slot);
                            AskWhatIsLacking(slot);
                            if (!hands_on_) Equip(slot);
                            if (first) MarkShared(host);
                          }) &&
                     Pass(listening_, slot, "listen",
                          [&] {
                            TakeAddress(slot);
                            CheckPorts(slot);
                            CheckRoom(slot);
                            if (first) OpenToPeers(host);
                          }) &&
                     Pass(connected_, slot, "reach the coordinator",
                          [&] {
                            // Slot 0 knows what it hands on before anybody asks it for that.
                            if (hands_on_) OfferData(slot);
                            if (first) return;
                            DialCoordinator(host);
                            FindMark(host);
                          }) &&
                     (!hands_on_ || Pass(equipped_, slot, "files", [&] { Equip(slot); })) &&
                     Pass(settled_, slot, "commit", [&] {
                       if (!first) return;
                       UnmarkShared(host);
                       CheckImages();
                       if (!is_rehearsal()) Commit(host);
                     });
  // In doubt, nothing is taken back: if the job does not exist, its agents end by themselves.
  if ((!ready || is_rehearsal()) && !in_doubt_) RollBack(slot);
}

template <typename Step>
bool Deployment::Pass(Gate& gate, int slot, const char* name, Step step) {
  Host& host = *hosts_[static_cast<size_t>(slot)];
  try {
    host.steps.Begin(name);
    step();
  } catch (const std::exception& error) {  // one bad host hides no other
    Fail(slot, error);
    if (const auto* taken = dynamic_cast<const protocol::NameTaken*>(&error)) {
      host.name_taken = *taken;
      // That job may need what this one has on other hosts.
      if (!taken->committed()) ShutGates();
    }
  }
  gate.Arrive(!host.failure);
  return WaitAt(gate, slot);
}

void Deployment::Fail(int slot, const std::exception& error) {
  Host& host = *hosts_[static_cast<size_t>(slot)];
  host.failure = FailureOf(error, plan_.hosts[static_cast<size_t>(slot)].name);
  host.failed = true;
  if (!IsEndedBySomebody(error)) return;
  host.touched = false;
  ended_ = true;
  Cancel();
}

bool Deployment::WaitAt(Gate& gate, int slot) {
  Host& host = *hosts_[static_cast<size_t>(slot)];
  host.steps.Begin(nullptr);
  while (true) {
    const Gate::State state = gate.Wait(500ms);
    if (state != Gate::State::kWaiting) return state == Gate::State::kOpen;
    if (host.failure || host.attached.link == nullptr) continue;
    try {
      (void)host.attached.link->Receive(SystemClock().Now());  // sends pings
    } catch (const protocol::Refusal& refusal) {
      Fail(slot, refusal);
    } catch (const Error&) {
      continue;  // the next step finds the broken link, and says so
    }
  }
}

void Deployment::StartOnHost(int slot) {
  Host& host = *hosts_[static_cast<size_t>(slot)];
  const HostPlan& plan = plan_.hosts[static_cast<size_t>(slot)];
  const auto on_step = [&host](const char* step) { host.steps.Begin(step); };
  host.attached.transport = MakeTransport(plan, plan_.ssh, Silence::kMayBeAFirewall, on_step);
  StartedAgent started = BringAgent(*host.attached.transport, GetEmbeddedAgents(),
                                    plan_.ssh.remote_dir, kStartLimits, on_step);
  host.attached.link = std::move(started.link);
  host.base_id = started.base_id;
  for (const auto& trouble :
       {RuntimeTrouble(plan_, slot, started.machine), ImageTrouble(plan_, slot, started.machine)}) {
    if (trouble) throw Error(Phase::kStart, trouble->why, trouble->remedy);
  }

  host.steps.Begin("agent start");
  protocol::Create create;
  create.job = cargo_.job.job;
  create.name = cargo_.job.name;
  create.plan_sha256 = cargo_.job.plan_sha256;
  create.started_by = UserAndMachine();
  create.slot = slot;
  // An alias is no address to listen on.
  create.address = slot != 0 ? "" : plan.host_name.empty() ? plan.address : "::";
  create.port = slot == 0 && !is_rehearsal() ? plan_.control_port : 0;
  create.orphan_timeout_ms = plan_.orphan_timeout_ms;
  create.uncommitted_limit_ms = milliseconds(kUncommittedLimit).count();
  host.touched = true;
  // In this order, against Cancel and HostsNotRolledBack: one of the two threads sees the other.
  if (cancelled_) {
    host.touched = false;
    ThrowIfCancelled();
  }
  try {
    host.attached.hello = host.attached.link->Create(create, In(kStartLimit));
    host.removed = host.attached.link->removed();
  } catch (const std::exception& error) {
    // A refusal leaves nothing behind; a lost answer may.
    if (FailureOf(error, plan.name).refusal) host.touched = false;
    throw;
  }
}

protocol::HostDescription Deployment::DescriptionOf(int slot) const {
  protocol::HostDescription description = DescribeHost(plan_, slot);
  SetAddresses(addresses_, description.slots);
  const RuntimesUsed used = RuntimesOf(description.tasks);
  if (used.cpu) description.files.push_back(cargo_.runtime->description());
  if (used.cuda) description.files.push_back(cargo_.cuda_runtime->description());
  if (cargo_.workdir) {
    description.workdir = cargo_.workdir->ArchiveDescriptions();
    const auto& large = cargo_.workdir->files();
    description.files.insert(description.files.end(), large.begin(), large.end());
    description.files.push_back(cargo_.workdir->times().description());
  }
  description.set_up = SetUpOn(slot);
  for (auto& one : description.data) {
    const auto parts = std::ranges::find(cargo_.data, one.name, &DataParts::name);
    if (parts == cargo_.data.end()) continue;
    one.key = (*parts)->key();
    one.file = (*parts)->file();
  }
  description.secret.value = cargo_.secret;
  description.replaces = rehearsed_for_;
  if (std::ranges::any_of(description.tasks, protocol::NamesKeptFolder<protocol::TaskDescription>))
    description.kept = cargo_.kept;
  if (is_rehearsal() && slot == 0) description.control_port = plan_.control_port;
  return description;
}

// With what the file says of this host's variables.
std::optional<protocol::SetUpDescription> Deployment::SetUpOn(int slot) const {
  auto set_up = cargo_.set_up;
  if (!set_up) return std::nullopt;
  for (const auto& variable : plan_.hosts[static_cast<size_t>(slot)].env) {
    std::erase_if(set_up->env, [&](const auto& other) { return other.first == variable.first; });
    set_up->env.push_back(variable);
  }
  return set_up;
}

void Deployment::ThrowIfCancelled() const {
  if (cancelled_) throw Error(Phase::kStart, "interrupted");
}

Json Deployment::Ask(Host& host, std::string_view type, Json body, milliseconds limit) {
  return host.attached.link->Call(type, std::move(body), In(limit), [this] { ThrowIfCancelled(); });
}

// Among hosts that are this machine nothing crosses a wire.
bool Deployment::HandsOn() const {
  uint64_t bytes = 0;
  for (const auto& runtime : RuntimesOfCargo()) bytes += runtime.size_bytes;
  if (cargo_.workdir) {
    for (const auto& archive : cargo_.workdir->archives()) {
      bytes += archive.description().size_bytes;
    }
    for (const auto& file : cargo_.workdir->files()) bytes += file.size_bytes;
  }
  for (const SentParts* parts : AllParts()) bytes += parts->size_bytes();
  const auto remote =
      std::ranges::count_if(plan_.hosts, [](const auto& host) { return !host.local; });
  return bytes >= kHandOnBytes && remote > 1;
}

void Deployment::Equip(int slot) {
  try {
    if (!hands_on_) OfferData(slot);
    BringFiles(slot);
    if (slot == 0) first_is_through_ = true;
  } catch (...) {
    if (slot == 0) first_has_failed_ = true;
    throw;
  }
  if (first_has_failed_) return;  // nobody gets through the next gate
  if (!UnpackData(slot)) return;
  Describe(slot);
}

// Hosts pull at the same time, each from its registry, with its own account's login.
void Deployment::PullImages(Host& host, const protocol::HostDescription& description) {
  const auto containers = ContainersOf(description);
  if (containers.empty()) return;
  host.steps.Begin("image");
  Ask(host, type::kPull, {{"containers", containers}}, kDialLimit);
  for (const TimePoint deadline = In(kPullLimit);;) {
    const auto state =
        Ask(host, type::kPulled, Json::object(), kDialLimit).get<protocol::PullState>();
    host.pulled_bytes = state.done ? 0 : state.bytes;
    if (!state.why.empty()) throw Error(Phase::kCommand, state.why, state.remedy);
    if (state.done) return;
    if (!state.image.empty()) host.steps.Begin("pulling the image");
    if (SystemClock().Now() > deadline) throw PullTakesTooLong(state.image);
    (void)host.attached.link->Receive(SystemClock().Now() + kPullLook);  // sends pings
  }
}

void Deployment::Describe(int slot) {
  Host& host = *hosts_[static_cast<size_t>(slot)];
  const auto description = std::exchange(host.description, {});
  PullImages(host, description);
  host.steps.Begin("unpacking files, checking ports and commands");
  const Json answer = Ask(host, type::kDescribe, description, LimitFor(description));
  host.troubles = protocol::Body<std::vector<protocol::Trouble>>(
      {.type = "ok", .body = answer.value("troubles", Json::array())});
  std::optional<protocol::KeptFiles> kept;
  Get(answer, "kept", kept);
  if (kept)
    TakeKept(slot, {plan_.hosts[static_cast<size_t>(slot)].name, *kept,
                    answer.value("kept_by", protocol::KeptBy())});
  host.images = answer.value("images", std::vector<protocol::ImageOnHost>());
  const bool set_up_runs = answer.value("set_up", false);
  AwaitPorts(host, set_up_runs ? AwaitSetUp(slot) : answer.value("waits", ""));
}

// Nobody goes on from a stranger's checkpoint, or writes over it, without knowing.
void Deployment::LookAtKept(int slot) {
  Host& host = *hosts_[static_cast<size_t>(slot)];
  const auto tasks = DescribeHost(plan_, slot).tasks;
  if (!cargo_.kept ||
      std::ranges::none_of(tasks, protocol::NamesKeptFolder<protocol::TaskDescription>))
    return;
  host.steps.Begin("{keep}");
  const auto found = Ask(host, type::kKept, *cargo_.kept, kDialLimit).get<protocol::KeptFound>();
  TakeKept(slot, {plan_.hosts[static_cast<size_t>(slot)].name, found.kept, found.kept_by});
}

void Deployment::TakeKept(int slot, KeptOnHost kept) {
  const protocol::KeptBy by = kept.by;
  hosts_[static_cast<size_t>(slot)]->kept = std::move(kept);
  if (by.is_stranger)
    throw Error(Phase::kFiles, fmt::format("{{keep}} has what jobs of {} have kept", by.who));
}

// The host ends a command that takes too long.
std::string Deployment::AwaitSetUp(int slot) {
  Host& host = *hosts_[static_cast<size_t>(slot)];
  const std::string& name = plan_.hosts[static_cast<size_t>(slot)].name;
  host.steps.Begin("set-up");
  protocol::SetUpAsk ask;
  try {
    while (true) {
      const Json answer = Ask(host, type::kSetUp, ask, kDescribeLimit);
      const auto progress = answer.get<protocol::SetUpProgress>();
      set_up_output_.Add(name, progress);
      if (progress.done) {
        set_up_output_.Finish(name);
        host.images = answer.value("images", std::vector<protocol::ImageOnHost>());
        return progress.waits;
      }
      ask.offset = progress.offset;
      if (!progress.output.value.empty()) continue;
      (void)host.attached.link->Receive(SystemClock().Now() + kSetUpLook);  // sends pings
      ThrowIfCancelled();
    }
  } catch (...) {
    set_up_output_.Finish(name);
    throw;
  }
}

// All hosts have answered: the gate before this step is open. Of what was sent from here each host has made sure itself.
void Deployment::CheckImages() const {
  std::map<std::string, std::map<std::string, std::vector<std::string>>> hosts;  // by image and id
  for (size_t slot = 0; slot < hosts_.size(); ++slot) {
    for (const auto& image : hosts_[slot]->images) {
      if (image.image.starts_with(protocol::kSentImages)) continue;
      auto& names = hosts[image.image][image.id];
      const std::string& name = plan_.hosts[slot].name;
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  for (const auto& [image, ids] : hosts) {
    if (ids.size() > 1) throw DifferentImages(image, ids);
  }
}

// The kernel keeps a port for a minute after a server's end; a check holds it for a moment.
void Deployment::AwaitPorts(Host& host, std::string why) {
  const TimePoint deadline = In(kPortsLimit);
  while (!why.empty()) {
    host.steps.Begin("a port that is not free yet (TIME_WAIT)");
    if (SystemClock().Now() > deadline) {
      throw protocol::Refusal(protocol::RefusalKind::kPortTaken, Phase::kPorts, why,
                              "choose other ports: --set cluster.ports=auto, or `ports` "
                              "(`more_ports`) in the cluster file");
    }
    (void)host.attached.link->Receive(SystemClock().Now() + kPortsLook);  // sends pings
    why = Ask(host, type::kPorts, Json::object(), kDialLimit).value("waits", "");
  }
}

std::vector<protocol::FileDescription> Deployment::RuntimesOfCargo() const {
  std::vector<protocol::FileDescription> runtimes;
  for (const auto* runtime : {&cargo_.runtime, &cargo_.cuda_runtime}) {
    if (*runtime) runtimes.push_back((*runtime)->description());
  }
  return runtimes;
}

// Slot 0 hands on what its own tasks have no use for, too.
void Deployment::AddRuntimesOfOthers(std::vector<protocol::FileDescription>& wanted) const {
  for (auto& runtime : RuntimesOfCargo()) {
    if (std::ranges::find(wanted, runtime.sha256, &protocol::FileDescription::sha256) ==
        wanted.end()) {
      wanted.push_back(std::move(runtime));
    }
  }
}

void Deployment::AskWhatIsMissing(int slot) {
  Host& host = *hosts_[static_cast<size_t>(slot)];
  host.steps.Begin("files");
  const protocol::HostDescription& description = host.description;
  std::vector<protocol::FileDescription> wanted = description.files;
  wanted.insert(wanted.end(), description.workdir.begin(), description.workdir.end());
  if (hands_on_ && slot == 0) AddRuntimesOfOthers(wanted);
  host.missing.clear();
  if (wanted.empty()) return;
  const Json answer = Ask(host, type::kNeed, {{"files", wanted}}, LimitFor(description));
  auto missing = answer.at("missing").get<std::set<std::string>>();
  // In one order for all hosts: what slot 0 gets first, the others ask it for first.
  for (const auto& file : wanted) {
    if (missing.erase(file.sha256) > 0) host.missing.push_back(file);
  }
  if (!missing.empty()) {
    throw ProtocolError(Phase::kUpload, "the host asks for a file that it was not offered");
  }
}

std::vector<SentParts*> Deployment::AllParts() const {
  std::vector<SentParts*> all;
  for (const auto& data : cargo_.data) all.push_back(data.get());
  for (const auto& image : cargo_.images) all.push_back(image.get());
  return all;
}

std::set<std::string> Deployment::DataKeysFor(int slot) const {
  std::set<std::string> keys;
  if (cargo_.data.empty()) return keys;
  for (const auto& data : cli::DataOf(plan_, TasksFor(plan_, slot))) {
    const auto parts = std::ranges::find(cargo_.data, data.name, &DataParts::name);
    if (parts != cargo_.data.end()) keys.insert((*parts)->key());
  }
  return keys;
}

// A spare host may run any task.
std::vector<protocol::WantedImage> Deployment::ImagesFor(int slot) const {
  const bool is_spare = plan_.hosts[static_cast<size_t>(slot)].spare;
  std::map<size_t, std::set<protocol::EngineKind>> engines;  // by the image
  for (const TaskOnHost& task : plan_.tasks) {
    if (task.own_image && (is_spare || task.slot == slot)) {
      engines[*task.own_image].insert(task.container->engine);
    }
  }
  std::vector<protocol::WantedImage> wanted;
  for (const auto& [at, kinds] : engines) {
    const ImagePlan& image = plan_.images[at];
    wanted.push_back(
        {image.key, image.reference, {kinds.begin(), kinds.end()}, image.layers, image.size_bytes});
  }
  return wanted;
}

// All slots of an account on a machine read the same, whatever names it has: the first one brings it.
std::vector<int> Deployment::SlotsWithOneFolder(int slot) const {
  const auto base = [this](int of) -> const std::string& {
    return hosts_[static_cast<size_t>(of)]->attached.hello.base;
  };
  std::vector<int> slots = SlotsBeside(slot).slots;
  std::erase_if(slots, [&](int other) { return base(other) != base(slot); });
  return slots;
}

void Deployment::AskWhatIsLacking(int slot) {
  Host& host = *hosts_[static_cast<size_t>(slot)];
  if (AllParts().empty()) return;
  const std::vector<int> beside = SlotsWithOneFolder(slot);
  if (beside.front() != slot) return;
  std::set<std::string> keys;
  for (const int other : beside) {
    keys.merge(DataKeysFor(other));
    for (auto& image : ImagesFor(other)) {
      keys.insert(image.key);
      host.images_wanted.push_back(std::move(image));
    }
  }
  host.steps.Begin(host.images_wanted.empty() ? "data" : "image");
  host.lacks = AskForData(host, {keys.begin(), keys.end()}, {}).missing;
}

SentParts& Deployment::PartsOf(const std::string& key) const {
  for (SentParts* parts : AllParts()) {
    if (parts->key() == key) return *parts;
  }
  throw ProtocolError(Phase::kFiles, "the host asks for data that it was not offered");
}

protocol::DataState Deployment::AskForData(Host& host, const std::vector<std::string>& keys,
                                           const std::vector<protocol::DataOffer>& offers) {
  if (keys.empty()) return {};
  const protocol::DataAsk ask{keys, offers, host.images_wanted};
  return protocol::Body<protocol::DataState>(
      {.type = "ok", .body = Ask(host, type::kData, ask, LimitFor(offers))});
}

std::vector<protocol::DataOffer> Deployment::OffersOf(const std::set<std::string>& keys,
                                                      Host& host) {
  std::vector<protocol::DataOffer> offers;
  for (const std::string& key : keys) {
    offers.push_back(PartsOf(key).Offer([&] {
      ThrowIfCancelled();
      (void)host.attached.link->Receive(SystemClock().Now());  // sends pings
    }));
  }
  return offers;
}

// Slot 0 hands on what others lack, too: they have answered by then.
void Deployment::OfferData(int slot) {
  Host& host = *hosts_[static_cast<size_t>(slot)];
  const std::set<std::string> own(host.lacks.begin(), host.lacks.end());
  std::set<std::string> keys = own;
  for (const auto& other : hosts_) {
    if (hands_on_ && slot == 0) keys.insert(other->lacks.begin(), other->lacks.end());
  }
  if (keys.empty()) return;
  host.steps.Begin(host.images_wanted.empty() ? "data" : "image");
  auto offers = OffersOf(keys, host);
  for (auto& offer : offers) {
    if (!own.contains(offer.key)) offer.unpacked_bytes = 0;
  }
  const Json wanted = {{"files", Json::array()}, {"data", offers}};
  const Json answer = Ask(host, type::kNeed, wanted, LimitFor(offers));
  auto missing = answer.at("missing").get<std::set<std::string>>();
  // What the work folder has, too, comes once.
  for (const auto& file : host.missing) missing.erase(file.sha256);
  for (const auto& offer : offers) {
    for (const auto& file : offer.files) {
      if (missing.erase(file.sha256) > 0) host.missing.push_back(file);
    }
  }
}

bool Deployment::UnpackData(int slot) {
  if (AllParts().empty()) return true;
  Host& host = *hosts_[static_cast<size_t>(slot)];
  const Host& first = *hosts_[static_cast<size_t>(SlotsWithOneFolder(slot).front())];
  if (&first != &host) return AwaitData(first, host);
  if (!host.lacks.empty()) HaveUnpacked(host);
  host.has_data = true;
  return true;
}

void Deployment::HaveUnpacked(Host& host) {
  host.steps.Begin("data");
  const std::set<std::string> lacks(host.lacks.begin(), host.lacks.end());
  auto state = AskForData(host, host.lacks, OffersOf(lacks, host));
  milliseconds pause = kDataLook;
  for (const TimePoint deadline = In(kDataLimit); !state.waits.empty();) {
    if (SystemClock().Now() > deadline) {
      throw Error(Phase::kFiles, "data is not there: job " + state.waits + " unpacks it still",
                  "look at that host's disk");
    }
    host.steps.Begin(state.waits != cargo_.job.job ? "data that another job unpacks"
                     : host.images_wanted.empty()  ? "unpacking data"
                                                   : "loading the image");
    (void)host.attached.link->Receive(SystemClock().Now() + pause);  // sends pings
    pause = std::min<milliseconds>(2 * pause, kSlowDataLook);
    state = AskForData(host, host.lacks, {});
  }
  if (!state.missing.empty()) {
    throw Error(Phase::kFiles, "data or an image is not there any more", "start again");
  }
}

bool Deployment::AwaitData(const Host& first, Host& host) {
  while (!first.has_data) {
    if (first.failed || first_has_failed_) return false;
    ThrowIfCancelled();
    host.steps.Begin("data");
    (void)host.attached.link->Receive(SystemClock().Now() + kDataLook);  // sends pings
  }
  return true;
}

void Deployment::BringFiles(int slot) {
  Host& host = *hosts_[static_cast<size_t>(slot)];
  if (host.missing.empty()) return;
  host.steps.Begin("files");
  const uint64_t bytes = ContentBytes(host.missing);
  to_send_ += bytes;
  ++lacking_;
  if (slot == 0 || !hands_on_) {
    SendFiles(host);
  } else if (!FetchFiles(host)) {
    AskWhatIsMissing(slot);
    OfferData(slot);
    sent_ += bytes - ContentBytes(host.missing);
    SendFiles(host);
  }
  ++supplied_;
}

bool Deployment::FetchFiles(Host& host) {
  const Json wanted = {{"files", host.missing}};
  Ask(host, type::kFetch, wanted, kDialLimit);
  const protocol::Fetched fetched = WatchFetch(host);
  if (first_has_failed_ || (fetched.done && fetched.missing.empty())) return true;
  sent_ -= fetched.bytes;
  Ask(host, type::kFetch, {{"files", Json::array()}}, kDialLimit);
  host.not_from_first =
      fetched.done ? fetched.why : fmt::format("nothing came for {} s", kFetchSilence.count());
  return false;
}

protocol::Fetched Deployment::WatchFetch(Host& host) {
  uint64_t counted = 0;
  TimePoint moved = SystemClock().Now();
  while (true) {
    auto fetched = protocol::Body<protocol::Fetched>(
        {.type = "ok", .body = Ask(host, type::kFetched, Json::object(), kDialLimit)});
    const TimePoint now = SystemClock().Now();
    if (fetched.bytes != counted || !first_is_through_) moved = now;
    sent_ += fetched.bytes - counted;  // it may wrap around, and back
    counted = fetched.bytes;
    const bool stuck = now - moved > kFetchSilence;
    if (fetched.done || stuck || first_has_failed_) return fetched;
    (void)host.attached.link->Receive(now + kFetchLook);  // sends pings
  }
}

void Deployment::SendFiles(Host& host) {
  FileUpload upload(
      *host.attached.link, [this] { ThrowIfCancelled(); },
      [this](uint64_t content_bytes, uint64_t wire_bytes) {
        sent_ += content_bytes;
        wire_ += wire_bytes;
      });
  for (const auto& file : host.missing) upload.Send(PackOf(upload, file.sha256));
  upload.Finish(In(kUploadLimit));
}

const PackedFile& Deployment::PackOf(FileUpload& upload, const std::string& sha256) {
  for (const auto* runtime : {&cargo_.runtime, &cargo_.cuda_runtime}) {
    if (*runtime && (*runtime)->description().sha256 == sha256) return **runtime;
  }
  const auto keep_alive = [&] { upload.Poll(); };
  const PackedFile* pack = cargo_.workdir ? cargo_.workdir->Pack(sha256, keep_alive) : nullptr;
  if (pack != nullptr) return *pack;
  for (SentParts* parts : AllParts()) {
    pack = parts->Pack(sha256, keep_alive);
    if (pack != nullptr) return *pack;
  }
  throw ProtocolError(Phase::kFiles, "the host wants a file that it was not offered");
}

FilesSent Deployment::Sent() const {
  return {.bytes = to_send_,
          .bytes_done = sent_,
          .wire_bytes = wire_,
          .hosts = lacking_,
          .hosts_done = supplied_};
}

// What this host knows the others by: the tasks there will ask the same resolver.
void Deployment::AskForNames(int slot) {
  Host& host = *hosts_[static_cast<size_t>(slot)];
  const auto names = NamesToAsk(plan_.hosts, slot);
  const bool is_needed = !names.empty() || has_aliases_;
  if (!is_needed || !IsFirstOfItsName(plan_.hosts, slot)) return;
  host.steps.Begin("names");
  Json answer = Ask(host, type::kResolve, {{"names", names}}, kNamesLimit);
  host.names =
      protocol::Body<protocol::ResolvedNames>({std::string(type::kResolve), 0, std::move(answer)});
}

std::vector<std::optional<protocol::ResolvedNames>> Deployment::NamesThere() const {
  std::vector<std::optional<protocol::ResolvedNames>> names;
  for (const auto& host : hosts_) names.push_back(host->names);
  return names;
}

void Deployment::CompareHosts() {
  const auto names = NamesThere();
  std::vector<std::string> told;
  for (const auto& host : hosts_) told.push_back(host->attached.hello.machine);
  addresses_ = ChooseAddresses(plan_, names);
  machines_ = GroupByMachine(plan_, told, names);
}

void Deployment::TakeAddress(int slot) {
  std::call_once(choice_, [&] { CompareHosts(); });
  if (const auto& trouble = addresses_[static_cast<size_t>(slot)].trouble) {
    throw Error(Phase::kResolve, trouble->why, trouble->remedy);
  }
}

Json Deployment::SharedBody() const { return {{"path", plan_.shared}, {"mark", mark_}}; }

void Deployment::MarkShared(Host& host) {
  if (plan_.shared.empty()) return;
  host.steps.Begin("shared folder");
  host.shared = Ask(host, type::kMarkShared, SharedBody(), kSharedLimit);
}

// The first host's mark is there by now, if it could be made.
void Deployment::FindMark(Host& host) {
  const auto& made = hosts_[0]->shared;
  if (!made || !made->marked) return;
  host.steps.Begin("shared folder");
  host.shared = Ask(host, type::kFindMark, SharedBody(), kSharedLimit);
}

// An empty file that stays is no reason to give a job up.
void Deployment::UnmarkShared(Host& host) {
  if (!host.shared || !host.shared->marked) return;
  try {
    host.attached.link->Call(type::kUnmarkShared, SharedBody(), In(kSharedLimit));
  } catch (const protocol::Refusal&) {
    return;
  }
}

const SlotsOfMachine& Deployment::SlotsBeside(int slot) const {
  return *std::ranges::find_if(machines_, [slot](const SlotsOfMachine& machine) {
    return std::ranges::find(machine.slots, slot) != machine.slots.end();
  });
}

void Deployment::CheckPorts(int slot) const {
  const SlotsOfMachine& machine = SlotsBeside(slot);
  if (!plan_.needs_ports || machine.shared_ports.empty() || machine.slots.back() != slot) return;
  const NameWarning shared = SharedBy(plan_, machine);
  throw Error(Phase::kPorts, shared.text, shared.remedy);
}

// The first slot of a machine that has several asks for all of them, once their agents are there. Slot 0 has connections of
// all others, too.
void Deployment::CheckRoom(int slot) {
  const std::vector<int>& slots = SlotsBeside(slot).slots;
  if ((slots.size() == 1 && slot != 0) || slots.front() != slot || plan_.hosts.size() == 1) return;
  protocol::Room room{.threads = 0, .descriptors = protocol::kDescriptorsOfAnAgent};
  if (slot == 0) {
    room.descriptors += protocol::kDescriptorsOfAMember * static_cast<int>(plan_.hosts.size() - 1);
  }
  for (const int beside : slots) {
    const auto tasks = std::ranges::count(plan_.tasks, beside, &TaskOnHost::slot);
    room.threads += protocol::kThreadsToCome + protocol::kThreadsOfATask * static_cast<int>(tasks);
  }
  Ask(*hosts_[static_cast<size_t>(slot)], protocol::kRoomRequest, room, kDialLimit);
}

void Deployment::OpenToPeers(Host& host) {
  std::vector<std::string> keys;
  for (const auto& other : hosts_) keys.push_back(other->attached.hello.public_key);
  coordinator_ = Ask(host, type::kPeers, {{"keys", keys}}, kDialLimit);
}

void Deployment::DialCoordinator(Host& host) {
  const Json body = {{"address", addresses_[0].address},
                     {"port", coordinator_.at("port")},
                     {"key", coordinator_.at("key")}};
  // When interrupted it may be that the coordinator is gone already.
  Ask(host, type::kDial, body, kDialLimit);
}

void Deployment::Commit(Host& host) {
  cargo_.before_commit();
  committing_ = true;
  protocol::JobPlan job = cargo_.job;
  SetAddresses(addresses_, job.slots);
  try {
    host.attached.link->Call(type::kCommit, job, In(kCommitLimit));
  } catch (const ProtocolError&) {
    in_doubt_ = true;  // nobody knows what the answer was
    throw;
  } catch (const LostConnection&) {
    in_doubt_ = true;
    CommitAgain(host, job);
  }
  committed_ = true;
}

JobRecord Deployment::RecordOf(const Host& host) const {
  JobRecord record;
  record.id = cargo_.job.job;
  record.hosts = plan_.hosts;
  record.ssh = plan_.ssh;
  record.bases.assign(plan_.hosts.size(), host.attached.hello.base);
  record.base_ids.assign(plan_.hosts.size(), host.base_id);
  return record;
}

// The answer was lost, and perhaps not the request: asked again by id, on a new connection.
void Deployment::CommitAgain(Host& host, const protocol::JobPlan& job) {
  const JobRecord record = RecordOf(host);
  try {
    Attached again = Attach(record, 0, kCommitLimit);
    again.link->Call(type::kCommit, job, In(kCommitLimit));
    again.hello.base = host.attached.hello.base;
    host.attached = std::move(again);
    in_doubt_ = false;
  } catch (const NothingThere&) {
    // The only error that tells: a refusal may be because the first request is being carried out.
    in_doubt_ = false;
    throw;
  }
}

void Deployment::RollBack(int slot) {
  Host& host = *hosts_[static_cast<size_t>(slot)];
  if (!host.touched || host.attached.link == nullptr) return;
  host.steps.Begin("roll back");
  try {
    const std::string left = Abort(slot);
    host.touched = false;
    ReportLeft(slot, left);
  } catch (const Error& error) {
    if (IsEndedBySomebody(error)) {
      host.touched = false;
      return;
    }
    // The agent removes itself when it hears nothing for kUncommittedLimit.
    host.roll_back_error =
        WithHost(Error(Phase::kStart, "roll-back not confirmed: " + error.cause(),
                       "the agent there removes itself within 60 s"),
                 plan_.hosts[static_cast<size_t>(slot)].name);
  }
}

std::string Deployment::Abort(int slot) {
  Host& host = *hosts_[static_cast<size_t>(slot)];
  try {
    UnmarkShared(host);
    const Json answer = host.attached.link->Call(type::kAbort, Json::object(), In(kAbortLimit));
    return answer.value("left", "");
  } catch (const LostConnection&) {
    return AbortOverAnotherConnection(slot);
  }
}

// Its agent has died, perhaps, and its keeper starts another one.
std::string Deployment::AbortOverAnotherConnection(int slot) {
  const JobRecord record = RecordOf(*hosts_[static_cast<size_t>(slot)]);
  TimePoint deadline = In(kAbortAgainLimit);
  try {
    return AskAgainWhenCutOff(deadline, [&] {
      const Attached again = Attach(record, slot, deadline);
      return again.link->Call(type::kAbort, Json::object(), deadline).value("left", "");
    });
  } catch (const NothingThere&) {
    return "";
  }
}

void Deployment::ReportLeft(int slot, const std::string& left) {
  if (left.empty()) return;
  const auto at = static_cast<size_t>(slot);
  hosts_[at]->roll_back_error =
      Error(Phase::kFiles, "rolling back: cannot remove " + left,
            fmt::format("look at what is in it; tfdist clean {}", plan_.file.string()))
          .WithHost(plan_.hosts[at].name);
}

}  // namespace tfdist::cli
