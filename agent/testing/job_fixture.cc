#include "agent/testing/job_fixture.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "agent/census/census.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/testing/test_paths.h"

namespace tfdist::agent {

using protocol::Json;

namespace type = protocol::type;

namespace {

void ReapAll() {
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

void PrintLogs(const std::filesystem::path& base) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(base)) {
    if (entry.path().filename() != "agent.log") continue;
    std::printf("%s:\n%s", entry.path().c_str(),
                ReadFileIfExists(entry.path(), 64 << 20).value_or("").c_str());
  }
}

constexpr int kMostSlots = 8;

protocol::SlotPlan MakeSlot(int slot) {
  return {.host = fmt::format("host{}", slot), .address = "127.0.0.1"};
}

// At the deadline the test fails, with the last Error.
void RepeatUntilDone(const std::function<void()>& work, const std::string& what) {
  std::string why;
  const auto done = [&] {
    try {
      work();
      return true;
    } catch (const Error& e) {
      why = e.what();
      return false;
    }
  };
  if (!WaitUntil(done, what)) ADD_FAILURE() << why;
}

}  // namespace

void JobTest::SetUp() {
  signal(SIGPIPE, SIG_IGN);  // an agent that is killed must not take the test with it
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::string name = testing::TempDir() + "job.XXXXXX";
  base_ = mkdtemp(name.data());
  job_ = "test-20260801T120000Z-" + RandomHex(3);
  std::filesystem::create_directories(base_ / "bin" / "some-hash");
  executable_ = base_ / "bin" / "some-hash" / "tfdist-agent";
  std::filesystem::copy_file(TestBinDir() / "tfdist-agent", executable_);
  std::filesystem::permissions(executable_, std::filesystem::perms::owner_all);
}

void JobTest::TearDown() {
  for (const ProcessInfo& process : Left()) {
    std::printf("was left: %s\n", agent::Describe(process).c_str());
  }
  if (HasFailure()) PrintLogs(base_);
  for (auto left = Left(); !left.empty(); left = Left()) {
    for (const ProcessInfo& process : left) kill(process.id.pid, SIGKILL);
    ReapAll();
  }
  std::filesystem::remove_all(base_);
}

protocol::Create JobTest::MakeCreate(int slot) const {
  protocol::Create create;
  create.job = job_;
  create.name = "test";
  create.plan_sha256 = "the plan's hash";
  create.slot = slot;
  create.address = "127.0.0.1";
  create.orphan_timeout_ms = orphan_timeout_ms_;
  return create;
}

AgentClient JobTest::CreateSlot(int slot) {
  AgentClient client(executable_, "start");
  client.WaitForHello(protocol::Serving::kStart);
  client.Send(type::kCreate, MakeCreate(slot));
  client.WaitForHello(protocol::Serving::kAgent);
  return client;
}

AgentClient JobTest::Attach(int slot) { return {SlotFolder(slot) / "agent", "attach"}; }

AgentClient JobTest::AttachToAgent(int slot, protocol::Hello* hello) {
  std::optional<AgentClient> client;
  protocol::Hello said;
  const auto attached = [&] {
    client.emplace(Attach(slot));
    said = client->WaitForHello();
    return said.serving == protocol::Serving::kAgent;
  };
  WaitUntil(attached, fmt::format("an agent in slot {}", slot));
  if (hello != nullptr) *hello = said;
  return std::move(*client);
}

void JobTest::AskSlot(int slot, const std::function<void(AgentClient&)>& ask) {
  const auto attach_and_ask = [&] {
    AgentClient client = Attach(slot);
    client.WaitForHello();
    ask(client);
  };
  RepeatUntilDone(attach_and_ask, fmt::format("slot {} to answer", slot));
}

protocol::HostDescription JobTest::Describe(int slot, const std::vector<Task>& tasks) const {
  protocol::HostDescription description;
  for (int i = 0; i < kMostSlots; ++i) description.slots.push_back(MakeSlot(i));
  description.secret.value = "a secret";
  description.shared = shared_;
  for (const Task& task : tasks) {
    if (task.slot != slot) continue;
    protocol::TaskDescription one;
    one.task = task.name;
    one.argv = {"sh", "-c", task.script.c_str()};
    one.grace_ms = task.grace_ms;
    description.tasks.push_back(one);
  }
  return description;
}

protocol::JobPlan JobTest::Plan(int slots, const std::vector<Task>& tasks) const {
  protocol::JobPlan plan;
  plan.job = job_;
  plan.name = "test";
  plan.layout = "roles";
  plan.plan_sha256 = "the plan's hash";
  for (int slot = 0; slot < slots; ++slot) {
    plan.slots.push_back(MakeSlot(slot));
  }
  for (const Task& task : tasks) {
    protocol::TaskPlan one;
    one.task = task.name;
    one.slot = task.slot;
    one.decides = task.decides;
    one.restart = task.restart;
    plan.tasks.push_back(one);
  }
  return plan;
}

JobTest::Job JobTest::Prepare(int slots, const std::vector<Task>& tasks) {
  Job job;
  job.plan = Plan(slots, tasks);
  std::vector<std::string> keys;
  for (int slot = 0; slot < slots; ++slot) {
    AgentClient client(executable_, "start");
    client.WaitForHello(protocol::Serving::kStart);
    client.Send(type::kCreate, MakeCreate(slot));
    keys.push_back(client.WaitForHello(protocol::Serving::kAgent).public_key);
    client.Request(type::kDescribe, Describe(slot, tasks));
    job.clients.push_back(std::move(client));
  }
  Json coordinator = job.clients[0].Request(type::kPeers, {{"keys", keys}});
  coordinator["address"] = "127.0.0.1";
  for (int slot = 1; slot < slots; ++slot) job.clients[slot].Request(type::kDial, coordinator);
  job.events = job.clients[0].Send(type::kEvents, kFromTheFirst);
  return job;
}

void JobTest::Commit(Job& job) {
  // A host that was silent for 4 s keeps the job from being committed, on a busy machine too.
  RepeatUntilDone([&] { job.clients[0].Request(type::kCommit, job.plan); }, "the commit");
}

JobTest::Job JobTest::Deploy(int slots, const std::vector<Task>& tasks) {
  Job job = Prepare(slots, tasks);
  Commit(job);
  return job;
}

int JobTest::WaitForStart(Job& job, const std::string& task) {
  AgentClient& client = job.clients[0];
  const uint64_t events = client.Send(type::kEvents, kFromTheFirst);
  const auto seen =
      client.WaitForEvent(events, protocol::event::kTask, {{"task", task}, {"state", "started"}});
  return FieldsOf(seen.back()).at("pid").get<int>();
}

std::filesystem::path JobTest::SlotFolder(int slot) const {
  return base_ / "jobs" / job_ / fmt::format("h{}", slot);
}

void JobTest::Touch(int slot, const std::string& name) {
  std::filesystem::create_directory(SlotFolder(slot) / "work" / name);
}

void JobTest::WaitForLog(AgentClient& client, const std::string& task, const std::string& text) {
  WaitUntil([&] { return client.ReadLog(task, false).find(text) != std::string::npos; },
            task + " to say " + text);
}

uint64_t JobTest::Follow(AgentClient& client, const std::string& task) {
  protocol::ReadLog request;
  request.task = task;
  request.follow = true;
  request.credit = 1 << 30;
  return client.Send(type::kReadLog, request);
}

void JobTest::WaitForText(AgentClient& client, uint64_t stream, std::string& log,
                          const std::string& text) {
  while (log.find(text) == std::string::npos) {
    const auto message = client.Wait(
        [&](const protocol::Message& m) { return m.id == stream && m.type == type::kLog; }, text);
    const auto piece = protocol::Body<protocol::LogPiece>(message);
    EXPECT_EQ(piece.offset, log.size());
    log += piece.data;
  }
}

void JobTest::KillAllOf(int slot) const {
  const auto processes = FindProcesses({CookieValue(job_, slot)}, {});
  // Frozen first: none takes another's place meanwhile.
  for (const int signal : {SIGSTOP, SIGKILL}) {
    for (const ProcessInfo& process : processes) {
      if (process.comm.starts_with("tfdist-")) kill(process.id.pid, signal);
    }
  }
}

pid_t JobTest::FindRole(int slot, const std::string& name) const {
  for (const ProcessInfo& process : FindProcesses({CookieValue(job_, slot)}, {})) {
    if (process.comm == name) return process.id.pid;
  }
  throw Error(Phase::kInternal, fmt::format("slot {} has no {}", slot, name));
}

std::vector<ProcessInfo> JobTest::Left() {
  ReapAll();
  auto processes = Descendants(getpid(), ReadProcessTable());
  std::erase_if(processes, [](const ProcessInfo& process) { return process.ended(); });
  return processes;
}

void JobTest::WaitUntilNothingIsLeft() {
  WaitUntil([] { return Left().empty(); }, "all processes to end");
}

std::string ResultOf(const std::vector<protocol::Event>& events) {
  return std::string(NameOf(std::get<protocol::event::Ended>(events.back().body).result));
}

}  // namespace tfdist::agent
