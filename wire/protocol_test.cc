#include "wire/protocol.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/process_limits.h"
#include "job/snapshot.h"
#include "job/state.h"
#include "wire/frame.h"
#include "wire/length.h"
#include "wire/refusal.h"

namespace tfdist::protocol {
namespace {

const std::string kAwkward("quote \" newline \n $(id) \xff\xfe \xf0\x9f\x98\x80", 30);

HostDescription SampleHost() {
  HostDescription host;
  TaskDescription task;
  task.task = "worker:2";
  task.argv = {Text("python3"), Text(kAwkward)};
  Text mixed("tcp://");
  mixed.parts.emplace_back(SlotAddress{1, true});
  mixed.parts.emplace_back(CommonText{"port"});
  mixed.parts.emplace_back(HostVariable{"PATH"});
  task.unset = {"CUDA_VISIBLE_DEVICES"};
  task.env = {{"PEER", mixed}};
  task.ports = {2222};
  task.gpu_share = GpuShare{1, 2};
  host.tasks = {task};
  host.common = {{"port", Text(":2222/")}};
  host.files = {{"ab", 12, true, "runtime"}};
  host.workdir = {FileDescription{"cd", 3, false, ""}};
  host.secret.value = std::string("\0\1\2", 3);
  host.data = {{"set", Text("/d"), "", ""}, {"one", Text(), std::string(64, 'a'), kAwkward}};
  host.replaces = "digits-1";
  host.control_port = 4242;
  host.kept = KeptClaim{"digits", "ab12", "alice@laptop", true};
  return host;
}

TEST(Protocol, APartOfTheGpusThatThereIsNotIsRefused) {
  for (const GpuShare share : {GpuShare{2, 2}, GpuShare{-1, 2}, GpuShare{0, 0}}) {
    EXPECT_THROW((void)Json(share).get<GpuShare>(), ProtocolError);
  }
}

TEST(Protocol, ADescriptionArrivesByteExact) {
  const Message sent{"describe", 7, SampleHost()};
  const auto got = Body<HostDescription>(Decode(Encode(sent)));
  EXPECT_EQ(got.tasks[0].argv, SampleHost().tasks[0].argv);
  EXPECT_EQ(got.tasks[0].env, SampleHost().tasks[0].env);
  EXPECT_EQ(got.tasks[0].unset, SampleHost().tasks[0].unset);
  EXPECT_EQ(got.tasks[0].gpu_share, SampleHost().tasks[0].gpu_share);
  EXPECT_EQ(got.common, SampleHost().common);
  EXPECT_EQ(got.secret, SampleHost().secret);
  EXPECT_EQ(got.workdir.at(0).sha256, "cd");
  ASSERT_EQ(got.data.size(), 2U);
  EXPECT_EQ(got.data[0].path, Text("/d"));
  EXPECT_EQ(got.data[1].key, std::string(64, 'a'));
  EXPECT_EQ(got.data[1].file, kAwkward);
  EXPECT_EQ(got.replaces, "digits-1");
  EXPECT_EQ(got.control_port, 4242);
  EXPECT_EQ(got.kept.value().home, "ab12");
  EXPECT_TRUE(got.kept.value().take);
}

TEST(Protocol, FillPutsAnIpv6AddressInBracketsBeforeAPort) {
  const std::vector<std::string> addresses = {"10.0.0.1", "fd00::2"};
  const HostDescription host = SampleHost();
  const auto variable = [](const std::string& name) { return name + "'s"; };
  EXPECT_EQ(Fill(host.tasks[0].env[0].second, {addresses, host.common, variable}),
            "tcp://[fd00::2]:2222/PATH's");
  Text outside;
  outside.parts.emplace_back(SlotAddress{2, false});
  EXPECT_THROW((void)Fill(outside, {addresses, host.common, variable}), ProtocolError);
  Text of_nobody;
  of_nobody.parts.emplace_back(CommonText{"port"});
  EXPECT_THROW((void)Fill(of_nobody, {addresses, CommonTexts(), variable}), ProtocolError);
  EXPECT_THROW((void)Fill(of_nobody, {addresses, CommonTexts{{"port", of_nobody}}, variable}),
               ProtocolError);
}

TEST(Protocol, ARefusalKeepsKindPhaseCauseAndRemedy) {
  const Message message = ErrorMessage(
      3, Refusal(RefusalKind::kPortTaken, Phase::kPorts, "port 2222 is taken", "free it"));
  try {
    ThrowIfError(Decode(Encode(message)));
    FAIL() << "nothing was thrown";
  } catch (const Refusal& refusal) {
    EXPECT_EQ(refusal.kind(), RefusalKind::kPortTaken);
    EXPECT_EQ(refusal.phase(), Phase::kPorts);
    EXPECT_EQ(refusal.cause(), "port 2222 is taken");
    EXPECT_EQ(refusal.remedy(), "free it");
  }
}

TEST(Protocol, AFullDiskHasItsRemedyWhoeverMeetsIt) {
  for (const char* why : {"No space left on device", "Disk quota exceeded"}) {
    const Message message =
        ErrorMessage(3, Error(Phase::kFiles, fmt::format("cannot open /home/u/x: {}", why)));
    EXPECT_EQ(message.body.at("remedy"), kRoomRemedy);
  }
}

// Which end has to change something: the one that asked, or the one that failed.
TEST(Protocol, ATakenNameIsARefusalThatNamesTheJob) {
  const Error error(Phase::kStart, "a job named 'digits' runs already", "end it");
  const Message message = ErrorMessage(3, NameTaken(error, "digits-1", "0123", true));
  EXPECT_EQ(message.body.at("kind"), "name-taken");
  try {
    ThrowIfError(message);
    FAIL() << "no error";
  } catch (const Refusal& refusal) {
    EXPECT_EQ(refusal.kind(), RefusalKind::kNameTaken);
    EXPECT_EQ(refusal.remedy(), "end it");
    EXPECT_EQ(dynamic_cast<const NameTaken&>(refusal).job(), "digits-1");
    EXPECT_TRUE(dynamic_cast<const NameTaken&>(refusal).committed());
  }
}

TEST(Protocol, ARefusalSaysWhetherTheRequestWasMalformed) {
  const auto kind_of = [](const Error& error) {
    return ErrorMessage(1, error).body.at("kind").get<std::string>();
  };
  EXPECT_EQ(kind_of(ProtocolError(Phase::kControl, "not a map")), "malformed");
  EXPECT_EQ(kind_of(LostConnection(Phase::kControl, "the keeper is gone")), "failed");
  EXPECT_EQ(RefusalKindFromName("of the future"), RefusalKind::kFailed);
}

TEST(Protocol, AMissingFieldIsNamed) {
  const Message message{"create", 1, Json::object({{"job", "x"}})};
  EXPECT_THROW((void)Body<Create>(message), ProtocolError);
}

// A message with that header.
std::string WithHeader(const std::string& header) {
  std::string bytes;
  AppendLength(bytes, header.size());
  return bytes + header;
}

std::string Repeated(int times, const std::string& text) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(Protocol, AMessageNestedDeeplyIsAnError) {
  for (const std::string& begin : {std::string(1'000'000, '['), Repeated(200'000, "{\"k\":"),
                                   "[1," + Repeated(200'000, "[[],")}) {
    EXPECT_THROW((void)Decode(WithHeader(begin)), Error);
  }
}

TEST(Protocol, AHeaderThatIsNoneIsAnError) {
  for (const std::string& header :
       {std::string("7"), std::string("[]"), std::string("{}"), std::string("{\"t\":\"ping\"}"),
        std::string("{\"b\":[],\"id\":7,\"t\":\"ping\"}"),
        std::string("{\"b\":{},\"id\":-7,\"t\":\"p\xff\"}"), std::string("{}{}")}) {
    EXPECT_THROW((void)Decode(WithHeader(header)), ProtocolError) << header;
  }
  EXPECT_THROW((void)Decode(""), ProtocolError);
  EXPECT_THROW((void)Decode(std::string(4, '\0')), ProtocolError);
  EXPECT_THROW((void)Decode(std::string("\xff\xff\xff\xff{}", 6)), ProtocolError);
}

TEST(Protocol, ThePayloadArrivesByteExact) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  const Message sent = MessageWith("log", 7, LogPiece{.offset = 5, .segments = {}, .data = all});
  const auto got = Body<LogPiece>(Decode(Encode(sent)));
  EXPECT_EQ(got.data, all);
  EXPECT_EQ(got.offset, 5U);
  EXPECT_FALSE(sent.body.contains("data"));
}

TEST(Protocol, BytesArriveWhateverTheyAre) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  EXPECT_EQ(Json::parse(JsonLine(Bytes{all})).get<Bytes>().value, all);
  EXPECT_EQ(JsonLine(Bytes{"plain"}), "\"plain\"");
  EXPECT_THROW((void)Json("\u0100").get<Bytes>(), ProtocolError);
  EXPECT_THROW((void)Json("\xf0\x9f\x98\x80").get<Bytes>(), ProtocolError);
}

TEST(Protocol, TextThatIsNotUtf8IsMarkedWhereItIsForPeople) {
  const Message message = ErrorMessage(1, Error(Phase::kFiles, "no file \xff", ""));
  EXPECT_EQ(Decode(Encode(message)).body.at("cause"), "no file \xef\xbf\xbd");
}

TEST(Protocol, TheNameOfAFileNeedNotBeUtf8) {
  const FileDescription file{.sha256 = "ab", .link = "work/caf\xe9"};
  const Message message{"need", 1, {{"files", {file}}}};
  EXPECT_EQ(Decode(Encode(message)).body.at("files").at(0).get<FileDescription>().link, file.link);
}

Json NestedIn(int arrays) {
  Json json = 1;
  for (int i = 0; i < arrays; ++i) json = Json::array({"before", json, "behind"});
  return json;
}

// nlohmann would cast it to whatever integer is asked for.
TEST(Protocol, AFractionThatNoIntegerCanHoldIsRefused) {
  EXPECT_EQ(Decode(Encode({"x", 1, {{"a", 1.5}}})).body.at("a"), 1.5);
  for (const char* number : {"1e20", "-1.5", "2147483648.0", "NaN", "1e999"}) {
    const std::string header = fmt::format(R"({{"t":"x","id":1,"b":{{"a":[{}]}}}})", number);
    EXPECT_THROW((void)Decode(WithHeader(header)), ProtocolError) << number;
  }
}

TEST(Protocol, TheDepthIsSeenBehindValuesOfAnyKind) {
  Json values = {nullptr,
                 true,
                 -5,
                 0.1,
                 0.1F,
                 300,
                 70'000,
                 5'000'000'000,
                 "",
                 Json::array(),
                 Json::object(),
                 std::string(70'000, 'x'),
                 Bytes{std::string(300, '\x81')}};
  for (int i = 0; i < 300; ++i) values.push_back({{"key", i}});
  // The message itself and its body are two levels.
  const Json body = {{"a", values}, {"z", NestedIn(30)}};
  EXPECT_EQ(Decode(Encode({"x", 1, body})).body, body);
  const std::string deeper = Encode({"x", 1, {{"a", values}, {"z", NestedIn(31)}}});
  try {
    (void)Decode(deeper);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), "malformed message: nested too deeply");
  }
}

TEST(Protocol, AMessageThatIsCutOffIsAnError) {
  const std::string bytes = Encode({"describe", 7, SampleHost()});
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW((void)Decode(bytes.substr(0, size)), Error) << size;
  }
}

TEST(Frame, LongMessagesTravelInPiecesAndAnyCutOfTheStreamGivesThemBack) {
  Message big{"file", 9, FilePiece{"ab", 0, "", true}, std::string(200'000, 'x')};
  const std::string stream = Frame(big) + Frame({"ping", 10, Json::object()});
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    FrameReader reader;
    std::vector<Message> got;
    for (size_t at = 0; at < stream.size();) {
      const size_t step = 1 + random() % 30'000;
      reader.Feed(std::string_view(stream).substr(at, step));
      while (auto message = reader.Next()) got.push_back(*message);
      at += step;
    }
    ASSERT_EQ(got.size(), 2U);
    EXPECT_EQ(Body<FilePiece>(got[0]).data.size(), 200'000U);
    EXPECT_EQ(got[1].type, "ping");
  }
}

// The example of protocol.md.
TEST(Frame, AStreamCarriesWhatThePageSays) {
  const std::string ping = std::string("\x00\x00\x00\x33\x04\x00\x00\x00\x29", 9) +
                           R"({"b":{},"c":2979611598,"id":7,"t":"ping"}bytes)";
  EXPECT_EQ(Frame({"ping", 7, Json::object(), "bytes"}), ping);
  EXPECT_EQ(Pieces({"ping", 7, Json::object(), "bytes"}).front(),
            std::string("\x03\x00\x00\x00\x1a", 5) + R"({"b":{},"id":7,"t":"ping"}bytes)");
  const Message big{"file", 9, FilePiece{"ab", 0, "", true}, std::string(200'000, 'x')};
  EXPECT_EQ(Pieces(big).front()[0], 2);
  EXPECT_EQ(Pieces(big).back()[0], 1);
}

TEST(Frame, AFrameOfVersion1IsKnown) {
  FrameReader reader;
  reader.Feed(std::string("\x00\x00\x00\x10\x01\xa3\x61\x62\xa0", 9));
  EXPECT_THROW((void)reader.Next(), EarlierProtocol);
}

TEST(Frame, AFrameOfAnotherFormOrLengthIsAnError) {
  for (const std::string& begin :
       {std::string("\x00\x00\x00\x10\x05", 5), std::string("\x00\x00\x00\x00\x04", 5),
        std::string("\x01\x00\x00\x01\x04", 5), std::string("\xff\xff\xff\xff\x04", 5)}) {
    FrameReader reader;
    reader.Feed(begin);
    EXPECT_THROW((void)reader.Next(), ProtocolError);
  }
}

TEST(Frame, TextOfOtherProgramsIsTakenBetweenMessages) {
  FrameReader reader;
  reader.Feed("note\n" + Frame({"ping", 7, Json::object(), "payload"}) + "caf\xe9\r\n" +
              Frame({"ping", 8, Json::object()}));
  EXPECT_EQ(reader.TakeStrayText(), "note\n");
  EXPECT_EQ(reader.Next()->id, 7U);
  EXPECT_EQ(reader.TakeStrayText(), "caf\xe9\r\n");
  EXPECT_EQ(reader.TakeStrayText(), "");
  EXPECT_EQ(reader.Next()->id, 8U);
}

TEST(Frame, TextInsideOfAPayloadIsAnError) {
  const std::string frame = Frame({"log", 7, Json::object(), "payload"});
  FrameReader reader;
  reader.Feed(frame.substr(0, frame.size() - 3) + "note\n" + frame.substr(frame.size() - 3));
  EXPECT_THROW((void)reader.Next(), ProtocolError);
}

// As an agent of an earlier build sends it. What follows may be the end of its payload.
TEST(Frame, NoTextIsTakenAfterAPayloadWithoutAChecksum) {
  const std::string bytes = Encode({"log", 7, Json::object(), "payload"});
  std::string frame;
  AppendLength(frame, 1 + bytes.size());
  FrameReader reader;
  reader.Feed(frame + '\x04' + bytes + "note\n");
  EXPECT_EQ(reader.Next()->id, 7U);
  EXPECT_EQ(reader.TakeStrayText(), "");
  EXPECT_THROW((void)reader.Next(), ProtocolError);
}

TEST(Frame, AMessageThatWasGivenUpHalfWayIsForgotten) {
  const Message big{"file", 9, FilePiece{"ab", 0, "", true}, std::string(200'000, 'x')};
  const Message small{"ping", 10, Json::object()};
  PieceReader reader;
  EXPECT_FALSE(reader.Feed(Pieces(big)[0]));
  const auto got = reader.Feed(Pieces(small)[0]);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->type, "ping");
}

TEST(Frame, RandomBytesGiveAnErrorAndNothingElse) {
  std::mt19937 random(2);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 64, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    PieceReader reader;
    try {
      (void)reader.Feed(bytes);
    } catch (const Error&) {
      continue;
    }
  }
  FrameReader reader;
  reader.Feed(std::string("\xff\xff\xff\xff\xff", 5));
  EXPECT_THROW((void)reader.Next(), Error);
}

// As it comes from the wire.
Event MakeEvent(std::string_view kind, Json fields) {
  return Json{{"number", 1}, {"time_ns", 0}, {"kind", kind}, {"fields", std::move(fields)}};
}

JobState RunningJob() {
  JobPlan plan;
  plan.job = "digits-1";
  plan.slots = {{"a", "10.0.0.1", false}};
  TaskPlan worker;
  worker.task = "worker:0";
  plan.tasks = {worker};
  JobState state;
  state.Apply(MakeEvent(event::kCommitted, {{"plan", plan}}));
  state.Apply(
      MakeEvent(event::kAttempt, {{"attempt", 1}, {"why", "first"}, {"seats", Json::array()}}));
  return state;
}

TEST(JobState, FollowsATaskToItsExit) {
  JobState state = RunningJob();
  state.Apply(MakeEvent(
      event::kTask,
      {{"task", "worker:0"}, {"attempt", 1}, {"run", 1}, {"state", "started"}, {"pid", 42}}));
  EXPECT_EQ(state.tasks["worker:0"].phase, TaskPhase::kRunning);
  TaskExit exit;
  exit.signal = 9;
  state.Apply(MakeEvent(event::kTask, {{"task", "worker:0"},
                                       {"attempt", 1},
                                       {"run", 1},
                                       {"state", "exited"},
                                       {"exit", exit},
                                       {"last_lines", Bytes{"bye\n"}}}));
  EXPECT_EQ(Describe(*state.tasks["worker:0"].exit), "signal 9 (SIGKILL)");
  EXPECT_EQ(state.tasks["worker:0"].last_lines, "bye\n");
}

TEST(JobState, KeepsTheFirstCauseOfTheEnd) {
  JobState state = RunningJob();
  state.Apply(MakeEvent(
      event::kStopping,
      {{"result", "failed"}, {"why", "exit code 3"}, {"task", "worker:0"}, {"force", false}}));
  state.Apply(MakeEvent(event::kStopping,
                        {{"result", "stopped"}, {"why", "down"}, {"task", ""}, {"force", false}}));
  EXPECT_EQ(state.result, JobResult::kFailed);
  EXPECT_EQ(state.first_task, "worker:0");
}

TEST(JobState, ASnapshotHasTheLastLinesOfFailedTasksAsFarAsThereIsRoom) {
  constexpr int kTasks = 100;
  JobPlan plan;
  plan.slots = {{"a", "10.0.0.1", false}};
  for (int at = 0; at < kTasks; ++at) plan.tasks.emplace_back().task = fmt::format("w:{}", at);
  JobState state;
  state.Apply({1, 0, event::Committed{plan}});
  const JobState begun = state;
  const std::string lines = std::string(100'000, 'x') + "\xff\n";
  for (const TaskPlan& task : plan.tasks) {
    state.Apply(
        {2, 0, event::TaskExited{task.task, 1, 1, TaskExit{1, 0, false, "", false, 0}, {lines}}});
  }
  state.Apply({3, 0, event::Stopping{JobResult::kFailed, "exit code 1", "w:99", false}});
  const Event snapshot = Json::parse(Json(SnapshotOf(state, {3, 0, {}}, 2)).dump());
  JobState restored = begun;
  restored.Apply(snapshot);
  EXPECT_EQ(restored.tasks["w:99"].last_lines, lines);
  const auto kept = std::ranges::count_if(
      restored.tasks, [](const auto& task) { return !task.second.last_lines.empty(); });
  EXPECT_EQ(kept, 10);
  EXPECT_EQ(restored.tasks["w:0"].exit->code, 1);
}

TEST(JobState, PassesOverUnknownKindsAndRefusesStrangers) {
  JobState state = RunningJob();
  state.Apply(MakeEvent("of the future", {}));
  EXPECT_THROW(state.Apply({2, 0, event::TaskStarted{"worker:9", 1, 1, 7}}), Error);
  EXPECT_THROW(state.Apply({2, 0, event::Host{5, HostState::kLost, ""}}), Error);
  EXPECT_THROW(state.Apply({2, 0, event::Attempt{2, "", {0, 1}}}), Error);
  EXPECT_THROW(MakeEvent(event::kTask, {{"task", "worker:0"}, {"state", "exited"}}),
               Json::exception);
}

}  // namespace
}  // namespace tfdist::protocol
