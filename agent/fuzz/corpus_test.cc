// Writes, or compares, the first inputs of the agent's fuzz targets.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "agent/control/messages.h"
#include "agent/frame.h"
#include "agent/protocol.h"
#include "base/testing/fuzz_corpus.h"

namespace tfdist::protocol {
namespace {

const std::filesystem::path kCorpus = TFDIST_TEST_SOURCE_DIR "/agent/fuzz/corpus";

Json SampleHost() {
  TaskDescription task;
  task.task = "worker:2";
  Text address("tcp://");
  address.parts.emplace_back(SlotAddress{1, true});
  task.argv = {"python3", address};
  task.unset = {"CUDA_VISIBLE_DEVICES"};
  task.env = {{"PEER", address}};
  task.ports = {2222};
  HostDescription host;
  host.tasks = {task};
  host.files = {{"ab", 12, true, "runtime"}};
  host.workdir = FileDescription{"cd", 3, false, ""};
  host.secret.value = "s3cret";
  return host;
}

JobPlan SamplePlan() {
  JobPlan plan;
  plan.job = "digits-1";
  plan.slots = {{"a", "10.0.0.1", false}};
  plan.tasks.emplace_back().task = "worker:0";
  return plan;
}

Json SampleReport() {
  agent::HostReport report;
  report.tasks = {{"worker:0", 1, 1, 123, true, TaskExit{3, 0, false, "", false, 0}, {"lines"}}};
  report.census = Census{{"pid 123 (sleep)"}, {}};
  return report;
}

Json SampleOrder() {
  return agent::Order{7, 1, agent::Goal::kStop, {"10.0.0.1"}, {{"worker:0", 1}}, false};
}

Json SampleLog() {
  return LogPiece{5, {{Stream::kStdout, 3, 1, 1, 0}, {Stream::kStderr, 2, 1, 1, 9}}, {"hello"}};
}

Json EventOf(event::Body body) { return Event{2, 0, std::move(body)}; }

std::string Bytes(std::string_view type, Json body) {
  return Encode({std::string(type), 1, std::move(body)});
}

TEST(FuzzCorpus, HasMessages) {
  const auto exit = TaskExit{0, 9, true, "", false, 4096};
  ReadLog read_log;
  read_log.tail_lines = 10;
  ExpectCorpus(
      kCorpus / "protocol",
      {{"hello", Bytes(type::kHello, Hello())},
       {"create", Bytes(type::kCreate, Create())},
       {"describe", Bytes(type::kDescribe, SampleHost())},
       {"commit", Bytes(type::kCommit, SamplePlan())},
       {"error", Encode(ErrorMessage(1, Error(Phase::kPorts, "port 2222 is taken", "free it")))},
       {"file", Bytes(type::kFile, FilePiece{"ab", 0, {"zipped"}, true})},
       {"read_log", Bytes(type::kReadLog, read_log)},
       {"log", Bytes(type::kLog, SampleLog())},
       {"report", Bytes(agent::control_type::kReport, SampleReport())},
       {"order", Bytes(agent::control_type::kOrder, SampleOrder())},
       {"event_committed", Bytes("", EventOf(event::Committed{SamplePlan()}))},
       {"event_host", Bytes("", EventOf(event::Host{0, HostState::kLost, "why"}))},
       {"event_task", Bytes("", EventOf(event::TaskExited{"worker:0", 1, 1, exit, {}}))},
       {"event_restarting",
        Bytes("", EventOf(event::Restarting{true, "worker:0", "exit code 3", 2000, 2}))},
       {"event_attempt", Bytes("", EventOf(event::Attempt{2, "exit code 3", {0}}))},
       {"event_run", Bytes("", EventOf(event::Run{"worker:0", 2}))},
       {"event_stopping",
        Bytes("", EventOf(event::Stopping{JobResult::kFailed, "exit code 3", "", false}))},
       {"event_ended", Bytes("", EventOf(event::Ended{JobResult::kFailed, {0}, {}}))}});
}

TEST(FuzzCorpus, HasStreams) {
  const Message ping{std::string(type::kPing), 0, Json::object()};
  const Message order{std::string(agent::control_type::kOrder), 2, SampleOrder()};
  // A piece that is the first, but not the last, of a message that is then given up.
  std::string first_piece = Frames(ping);
  first_piece[4] = 2;
  ExpectCorpus(kCorpus / "frame", {{"two_messages", Frames(ping) + Frames(order)},
                                   {"given_up_half_way", first_piece + Frames(order)}});
}

}  // namespace
}  // namespace tfdist::protocol
