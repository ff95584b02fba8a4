// Writes, or compares, the first inputs of the agent's fuzz targets. Those of journal_fuzz whose
// names begin with "bad_", and those of proc_fuzz, are written by hand.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "agent/control/zmq_uplink.h"
#include "agent/coordinator/disk/journal.h"
#include "agent/fuzz/log_image.h"
#include "agent/process/record.h"
#include "agent/process/run_records.h"
#include "base/testing/fuzz_corpus.h"
#include "base/testing/fuzz_parts.h"
#include "base/testing/test_paths.h"
#include "job/snapshot.h"
#include "wire/contact.h"
#include "wire/control.h"
#include "wire/file_fetch.h"
#include "wire/frame.h"
#include "wire/house.h"
#include "wire/protocol.h"
#include "wire/resolved_names.h"
#include "wire/room.h"
#include "wire/shared_folder.h"
#include "wire/task_look.h"

namespace tfdist::protocol {
namespace {

const std::filesystem::path kCorpus = TestSourceDir() / "agent/fuzz/corpus";

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
  host.workdir = {FileDescription{"cd", 3, false, ""}};
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
  report.census = Census{{"pid 123 (sleep)"}, {}, {}};
  return report;
}

Json SampleOrder() {
  return agent::Order{7, 1, agent::Goal::kStop, {"10.0.0.1"}, {{"worker:0", 1}}, false};
}

LogPiece SampleLog() {
  return LogPiece{5, {{Stream::kStdout, 3, 1, 1, 0}, {Stream::kStderr, 2, 1, 1, 9}}, {"hello"}};
}

Json SampleLook() {
  TaskLook task;
  task.task = "worker:0";
  task.state = "S";
  task.gpus = {{1, 50, 1 << 20, 1 << 30}};
  task.ports = {2222};
  task.connections = {{"10.0.0.1:40312", "10.0.0.2:2222", true, 9}};
  return HostLook{1, {task}};
}

Json EventOf(event::Body body) { return Event{2, 0, std::move(body)}; }

// Of a job whose only task has failed once.
Event SampleSnapshot() {
  JobState state;
  state.Apply({1, 5, event::Committed{SamplePlan()}});
  state.Apply({2, 6, event::Attempt{1, "start", {}}});
  state.Apply({3, 7, event::TaskExited{"worker:0", 1, 1, TaskExit{3, 0, false, "", false, 0}, {}}});
  const Event last{4, 8, event::Restarting{true, "worker:0", "exit code 3", 2000, 2}};
  state.Apply(last);
  return SnapshotOf(state, last, 2);
}

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
       {"file", Encode(MessageWith(type::kFile, 1, FilePiece{"ab", 0, "zipped", true}))},
       {"read_log", Bytes(type::kReadLog, read_log)},
       {"log", Encode(MessageWith(type::kLog, 1, SampleLog()))},
       {"report", Bytes(agent::control_type::kReport, SampleReport())},
       {"ask_file", Bytes(type::kAskFile, FileAsk{"ab", kFilePartBytes})},
       {"file_part",
        Encode(MessageWith(type::kFilePart, 1, FilePart{"ab", 0, PartState::kData, "content"}))},
       {"fetched", Bytes(type::kFetched, Fetched{7, true, {"ab"}, "it is not there"})},
       {"look", Bytes(type::kLook, LookRequest{true, true, true})},
       {"looked", Bytes(type::kLooked, SampleLook())},
       {"resolved",
        Bytes(type::kResolve,
              ResolvedNames{{{"h1", {"10.0.0.1"}, ""}, {"h2", {}, "unknown"}}, {"::1"}})},
       {"shared", Bytes(type::kFindMark, SharedFolder{true, ""})},
       {"room", Bytes(kRoomRequest, Room{40, 78})},
       {"list_slots",
        Bytes(type::kListSlots, ListSlots{{{"/home/u/.cache/tfdist"}}, true, "", ""})},
       {"slot_list",
        Bytes(
            type::kListSlots,
            SlotList{
                {{0, "digits-1", 3, false, true, 120, false}}, 4711, {}, {}, {{0, "digits", {}}}})},
       {"remove_slots", Bytes(type::kRemoveSlots,
                              RemoveSlots{{{"/base"}}, {"digits-1"}, 3, true, false, {"digits"}})},
       {"removal", Bytes(type::kRemoveSlots,
                         Removal{{"/base/jobs/digits-1/h3"},
                                 {{"/base/jobs/digits-1/h4: something of it runs", "end it"}},
                                 {"/base: other jobs use it"}})},
       {"contact", Bytes(agent::kContactRequest, agent::Contact{true, false, false, true, 900})},
       {"dial", Bytes(type::kDial, agent::CoordinatorAddress{"10.0.0.1", 2300, "key"})},
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
       {"event_snapshot", Bytes("", SampleSnapshot())},
       {"event_ended", Bytes("", EventOf(event::Ended{JobResult::kFailed, {0}, {}}))}});
}

TEST(FuzzCorpus, HasStreams) {
  const Message ping{std::string(type::kPing), 0, Json::object()};
  const Message order{std::string(agent::control_type::kOrder), 2, SampleOrder()};
  const std::string piece = Pieces(ping).front();
  const std::string with_length = static_cast<char>(piece.size()) + piece;
  // The first, but not the last, of a message that is then given up.
  std::string first_piece = with_length;
  first_piece[1] = 2;
  ExpectCorpus(kCorpus / "frame", {{"two_messages", Frame(ping) + Frame(order)},
                                   {"given_up_half_way", first_piece + with_length}});
}

std::string Journal(const std::vector<event::Body>& bodies) {
  std::string text;
  uint64_t number = 0;
  for (const event::Body& body : bodies) {
    text += agent::EncodeRecord({++number, 1'700'000'000'000'000'000, body}) + "\n";
  }
  return text;
}

TEST(FuzzCorpus, HasJournals) {
  const event::Committed committed{SamplePlan()};
  const TaskExit exit{3, 0, false, "", false, 4096};
  const std::string two_lines = Journal({committed, event::TaskStarted{"worker:0", 1, 1, 123}});
  ExpectCorpus(
      kCorpus / "journal",
      {{"whole_job",
        Journal({committed, event::TaskStarted{"worker:0", 1, 1, 123},
                 event::TaskExited{"worker:0", 1, 1, exit, {std::string("\xff\0line\n", 7)}},
                 event::Restarting{false, "worker:0", "exit code 3", 2000, 2},
                 event::Run{"worker:0", 2}, event::Host{0, HostState::kLost, "silent"},
                 event::Stopping{JobResult::kFailed, "lost", "worker:0", false},
                 event::CensusTaken{0, {{"pid 123 (sleep)"}, {}, {}}},
                 event::Ended{JobResult::kFailed, {}, {0}}})},
       {"unknown_kind", Journal({committed, event::Other{"news", {{"why", "\xc3("}}}})},
       {"torn_last_line", two_lines.substr(0, two_lines.size() - 9)},
       {"line_in_the_middle_lost", two_lines.substr(two_lines.find('\n') + 1)}});
}

// Before its checksum, which the target puts right.
std::string WithoutChecksum(std::string record) {
  record.resize(record.size() - sizeof(uint32_t));
  return record;
}

TEST(FuzzCorpus, HasRunRecords) {
  agent::RunSpec spec;
  spec.task = "worker:2";
  spec.argv = {"python3", ""};
  spec.env = {"A=", "RAW=\xff\n"};
  spec.cwd = "/w";
  const agent::RunPids pids{{4, 5}, {6, 7}, "boot"};
  const TaskExit exit{0, 9, true, std::string(5000, 'x'), true, UINT64_MAX};
  // A list of 2^64 - 1 texts, and one text of as many bytes.
  const std::string endless = agent::RecordWriter().Put("t").Put(UINT64_MAX).Finish();
  ExpectCorpus(kCorpus / "run_record",
               {{"spec", agent::EncodeRunSpec(spec)},
                {"spec_unsealed", WithoutChecksum(agent::EncodeRunSpec(spec))},
                {"pids", WithoutChecksum(agent::EncodeRunPids(pids))},
                {"exit", WithoutChecksum(agent::EncodeRunExit(exit))},
                {"endless_list", WithoutChecksum(endless)},
                {"no_bytes", ""}});
}

std::string IndexOf(std::vector<agent::LogRecord> records) {
  std::string bytes;
  for (agent::LogRecord& record : records) {
    record.crc32 = Checksum(record);
    bytes.append(reinterpret_cast<const char*>(&record), sizeof record);
  }
  return bytes;
}

agent::LogRecord PieceOf(uint64_t offset, uint32_t length) {
  return {.offset = offset, .length = length, .stream = Stream::kStdout, .attempt = 1, .run = 1};
}

struct SampleFile {
  uint8_t missing_before = 0;
  std::string text;
  std::string index;
};

std::string LogOf(const std::vector<SampleFile>& files) {
  std::string input(1, static_cast<char>(agent::fuzz::kRightChecksums));
  for (const SampleFile& file : files) {
    agent::fuzz::Append(input, file.missing_before, file.text, file.index);
  }
  return input;
}

TEST(FuzzCorpus, HasLogs) {
  const std::string whole = IndexOf({PieceOf(0, 6), PieceOf(6, 4)});
  ExpectCorpus(
      kCorpus / "log_index",
      {{"whole", LogOf({{0, "hello\nyou\n", whole}})},
       {"two_files", LogOf({{0, "hello\nyou\n", whole}, {0, "and\n", IndexOf({PieceOf(10, 4)})}})},
       {"oldest_removed", LogOf({{200, "late\n", IndexOf({PieceOf(200, 5)})}})},
       {"file_missing", LogOf({{0, "a\n", IndexOf({PieceOf(0, 2)})}, {9, "b\n", ""}})},
       {"text_without_records", LogOf({{0, "hello\nyou\n", IndexOf({PieceOf(0, 6)})}})},
       {"records_without_text", LogOf({{0, "hel", whole}})},
       {"torn_record", LogOf({{0, "hello\nyou\n", whole.substr(0, 50)}})},
       {"damaged_record", LogOf({{0, "hello\nyou\n", std::string(40, 'x') + whole.substr(40)}})},
       {"gap_and_overlap",
        LogOf({{0, "0123456789", IndexOf({PieceOf(0, 4), PieceOf(6, 2), PieceOf(5, 5)})}})},
       {"offset_wraps_around",
        LogOf({{0, "0123456789", IndexOf({PieceOf(0, 4), PieceOf(UINT64_MAX - 1, 9)})}})},
       {"same_record_for_ever", LogOf({{0, "0123", IndexOf({PieceOf(0, 1), PieceOf(0, 1)})}})},
       {"longest_record", LogOf({{0, "0123", IndexOf({PieceOf(0, UINT32_MAX)})}})},
       {"no_files", LogOf({})}});
}

TEST(FuzzCorpus, HasZapRequests) {
  const std::string key(32, 'a');
  const auto request = [](const std::string& version, const std::string& domain,
                          const std::string& mechanism, const std::string& credentials) {
    return std::vector<std::string>{version, "7", domain, "10.0.0.1", "", mechanism, credentials};
  };
  auto doubled = request("1.0", "tfdist", "CURVE", key);
  doubled.push_back(std::string(32, 'b'));
  ExpectCorpus(kCorpus / "agent_zap",
               {{"known_key", FromParts(request("1.0", "tfdist", "CURVE", key))},
                {"other_slot", FromParts(request("1.0", "tfdist", "CURVE", std::string(32, 'b')))},
                {"unknown_key", FromParts(request("1.0", "tfdist", "CURVE", std::string(32, 'c')))},
                {"short_key", FromParts(request("1.0", "tfdist", "CURVE", key.substr(1)))},
                {"no_key", FromParts(request("1.0", "tfdist", "CURVE", ""))},
                {"other_domain", FromParts(request("1.0", "", "CURVE", key))},
                {"other_version", FromParts(request("2.0", "tfdist", "CURVE", key))},
                {"null_mechanism", FromParts(request("1.0", "tfdist", "NULL", key))},
                {"two_keys", FromParts(doubled)},
                {"version_alone", FromParts({"1.0"})},
                {"nothing", ""}});
}

}  // namespace
}  // namespace tfdist::protocol
