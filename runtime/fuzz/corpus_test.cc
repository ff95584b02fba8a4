// Writes, or compares, the first inputs of the runtime's fuzz targets. Those of tf_config_fuzz, and
// those of manifest_fuzz and shard_fuzz whose names begin with "bad_", are written by hand.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/testing/fuzz_corpus.h"
#include "base/testing/fuzz_parts.h"
#include "base/testing/temporary_folder.h"
#include "base/testing/test_paths.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/shard_file.h"
#include "runtime/common/bytes.h"
#include "runtime/fuzz/answers.h"
#include "runtime/fuzz/conversation.h"
#include "runtime/fuzz/scribbles.h"
#include "runtime/shm/layout.h"
#include "runtime/transport/messages.h"
#include "runtime/transport/testing/sample_messages.h"

namespace tfdist::runtime::fuzz {
namespace {

const std::filesystem::path kCorpus = TestSourceDir() / "runtime/fuzz/corpus";

const std::vector<TensorSpec> kVariables = {{"w", {2, 3}}, {"scale", {}}};
const std::vector<TablePart> kTables = testing::SampleTables();

// As service_fuzz has its trainers: attempt 2, run 1.
Request Make(Operation operation) {
  Request request;
  request.operation = operation;
  request.attempt = 2;
  request.client = 1;
  return request;
}

Request HelloOf(const std::string& task) {
  Request request = Make(Operation::kHello);
  request.task = task;
  return request;
}

Request Create(const std::string& update) {
  Request request = Make(Operation::kCreate);
  request.optimizer = "adam:learning_rate=0.01,lazy=true";
  request.update_mode = update;
  request.variables = kVariables;
  if (update == "async") request.tables = kTables;
  return request;
}

Request Save() {
  Request request = Make(Operation::kSave);
  request.checkpoint = testing::SampleSave();
  return request;
}

Request Restore() {
  Request request = Make(Operation::kRestore);
  request.checkpoint = testing::SampleRestore();
  return request;
}

Request Open() {
  Request request = Make(Operation::kOpen);
  request.variables = kVariables;
  request.tables = kTables;
  return request;
}

// A part about the first block, of the server's own creation.
Request Part(Operation operation, uint64_t sequence, std::vector<Range> push,
             std::vector<Range> pull) {
  Request request = Make(operation);
  request.part.sequence = sequence;
  request.part.oldest = sequence;
  request.part.is_push = operation == Operation::kExchange && !push.empty();
  request.part.push = std::move(push);
  request.part.pull = std::move(pull);
  return request;
}

Request Narrow(Request request, WireFloat values = WireFloat::kBfloat16) {
  request.part.values = values;
  return request;
}

Request Local() {
  Request request = Make(Operation::kLocal);
  request.host = "00000000-0000-0000-0000-000000000000/4026531840";
  return request;
}

Request Rows(uint64_t sequence, std::vector<RowCounts> counts) {
  Request request = Part(Operation::kRows, sequence, {}, {});
  request.part.is_push = true;
  request.part.rows = std::move(counts);
  return request;
}

std::string Floats(size_t count) {
  const std::vector<float> floats(count, 0.5F);
  return {reinterpret_cast<const char*>(floats.data()), count * sizeof(float)};
}

std::string NarrowFloats(size_t count, float value, WireFloat kind) {
  std::string bytes(count * SizeOf(kind), '\0');
  ToWire(std::vector<float>(count, value), kind, bytes.data());
  return bytes;
}

std::string RowNumbers(const std::vector<uint32_t>& rows) {
  return {reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(uint32_t)};
}

// What service_fuzz reads, turn after turn.
class Script {
 public:
  explicit Script(ServerKind kind) : bytes_(1, static_cast<char>(kind)) {}
  Script& Say(uint8_t peer, const Request& request, const std::string& payload = "") {
    const zmq::message_t header = Encode(request);
    Append(bytes_, {peer, header.to_string_view(), payload});
    return *this;
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Peers of service_fuzz.
constexpr uint8_t kChief = 0;
constexpr uint8_t kWorker0 = 1;
constexpr uint8_t kWorker1 = 2;
constexpr uint8_t kStranger = 3;

Script EmptyServer() {
  Script script(ServerKind::kEmpty);
  script.Say(kWorker0, Open()).Say(kChief, Create("async"));
  return script.Say(kChief, Part(Operation::kAssign, 1, {{0, 7}}, {}), Floats(7));
}

Script PushesAndPulls(ServerKind kind) {
  Script script(kind);
  const Request push = Part(Operation::kExchange, 1, {{0, 2}, {2, 1}}, {{0, 1503}});
  script.Say(kWorker0, push, Floats(3)).Say(kWorker1, push, Floats(3));
  script.Say(kWorker0, Part(Operation::kExchange, 2, {}, {{1, 1}, {3, 40}}));
  script.Say(kWorker0 | kTimePasses, push, Floats(3));
  return script.Say(kWorker1 | kGoneAfterwards, Part(Operation::kExchange, 2, {{0, 2}}, {}),
                    Floats(2));
}

Script PushInParts() {
  Script script(ServerKind::kSync);
  Request push = Part(Operation::kExchange, 1, {{0, 2}}, {});
  push.part.of = 2;
  script.Say(kWorker0, push, Floats(2));
  push.part.number = 1;
  push.part.push = {{2, 1}};
  push.part.pull = {{0, 3}};
  script.Say(kWorker0, push, Floats(1));
  return script.Say(kWorker1, Part(Operation::kExchange, 1, {{0, 3}}, {}), Floats(3));
}

// Between trainers that have chosen differently. The first makes values that are more than a
// float16 can be: what the second pushes is applied, and what it wants refused.
Script NarrowValues() {
  constexpr WireFloat kHalf = WireFloat::kFloat16;
  constexpr WireFloat kBrain = WireFloat::kBfloat16;
  Script script(ServerKind::kStaleness);
  const Request push = Part(Operation::kExchange, 1, {{0, 2}}, {{0, 1503}});
  script.Say(kWorker0, Narrow(push, kBrain), NarrowFloats(2, 1e6F, kBrain));
  script.Say(kWorker1, Narrow(push, kHalf), NarrowFloats(2, 0.5F, kHalf));
  const Request pull = Part(Operation::kExchange, 2, {}, {{2, 1}, {4, 40}});
  script.Say(kWorker0, Narrow(pull, kBrain)).Say(kWorker1, Narrow(pull, kHalf));
  const Request later = Part(Operation::kExchange, 3, {{0, 3}}, {{0, 3}});
  script.Say(kWorker0, Narrow(later, kBrain), NarrowFloats(3, 0.5F, kBrain));
  return script.Say(kWorker1, Narrow(later, kHalf), NarrowFloats(3, 0.5F, kHalf));
}

Script RowsOfTables(ServerKind kind) {
  Script script(kind);
  script.Say(kWorker0, Rows(1, {{0, 2, 1}, {1, 1, 2}}),
             RowNumbers({4, 4, 0}) + Floats(8) + RowNumbers({2, 0, 1}) + Floats(2));
  return script.Say(kWorker1, Rows(1, {{1, 0, 3}}), RowNumbers({0, 1, 2}));
}

// In three messages, of which the last names no row; then a push of no row at all, twice.
Script AllRowsMove(ServerKind kind) {
  Script script(kind);
  Request push = Rows(1, {{0, 2, 0}});
  push.part.of = 3;
  script.Say(kWorker0, push, RowNumbers({4, 1}) + Floats(8));
  push.part.number = 1;
  push.part.rows = {{0, 1, 0}, {1, 1, 0, true}};
  script.Say(kWorker0, push, RowNumbers({0}) + Floats(4) + RowNumbers({2}) + Floats(2));
  push.part.number = 2;
  push.part.rows = {{0, 0, 2, true}};
  script.Say(kWorker0, push, RowNumbers({3, 1}));
  const Request none = Rows(1, {{0, 0, 1, true}, {1, 0, 0, true}});
  return script.Say(kWorker1, none, RowNumbers({3})).Say(kWorker1, none, RowNumbers({3}));
}

Script RowsThatWait(ServerKind kind) {
  Script script(kind);
  const Request push = Rows(1, {{0, 2, 1}});
  script.Say(kWorker0, push, RowNumbers({4, 1, 0}) + Floats(8));
  script.Say(kWorker0, Rows(2, {{1, 0, 1}}), RowNumbers({2}));
  script.Say(kWorker1, Rows(1, {{0, 1, 2}}), RowNumbers({4, 4, 1}) + Floats(4));
  return script.Say(kWorker0 | kTimePasses, push, RowNumbers({4, 1, 0}) + Floats(8));
}

// With answers held back, one push in parts, and more of both afterwards.
Script TrainingEnds() {
  Script script(ServerKind::kSync);
  Request part = Part(Operation::kExchange, 1, {{0, 2}}, {});
  part.part.of = 2;
  const Request push = Part(Operation::kExchange, 1, {{0, 3}}, {{0, 3}});
  script.Say(kWorker0, push, Floats(3)).Say(kWorker1, part, Floats(2));
  script.Say(kChief, Make(Operation::kEnd));
  part.part.number = 1;
  script.Say(kWorker1, part, Floats(2));
  return script.Say(kWorker0, Part(Operation::kExchange, 2, {{0, 3}}, {{0, 3}}), Floats(3))
      .Say(kChief, Create("sync:replicas=2"));
}

Script ComesAndGoes() {
  Script script(ServerKind::kStaleness);
  script.Say(kStranger, HelloOf("worker:0")).Say(kWorker0, Make(Operation::kGoodbye));
  Request hello = HelloOf("worker:0");
  hello.client = 2;
  return script.Say(kWorker0, hello).Say(kChief, Create("staleness:bound=1"));
}

// More than a server holds answers for.
Script PushesWithoutEnd() {
  Script script(ServerKind::kStaleness);
  script.Say(kWorker1, Part(Operation::kExchange, 1, {}, {{0, 3}}));
  Request push = Part(Operation::kExchange, 1, {{0, 3}}, {});
  return script.Say(kWorker0 | kAgainAndAgain, push, Floats(3));
}

// What link_fuzz reads, turn after turn.
class Answers {
 public:
  explicit Answers(uint8_t setup) : bytes_(1, static_cast<char>(setup)) {}
  Answers& Say(uint8_t what, const Reply& reply, const std::string& payload = "") {
    const zmq::message_t header = Encode(reply);
    Append(bytes_, Turn{what, header.to_string_view(), payload});
    return *this;
  }
  // Those that were sent on the connection so far, from one to another.
  Answers& SayAbout(uint32_t first, uint32_t last, uint8_t what = 0) {
    for (uint32_t i = first; i <= last; ++i) {
      Say(kOfASentOne | kFits | what, {Operation::kExchange, Status::kDone, i, 0, 3, 0, "", 4},
          Floats(2));
    }
    return *this;
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

Reply HelloAnswer(std::vector<uint16_t> ports = {}) {
  Reply reply;
  reply.ports = std::move(ports);
  return reply;
}

Reply OpenedAs(const std::string& update) {
  return {Operation::kOpen, Status::kDone, 0, 0, 3, 77, "", 3, update, true};
}

// The first two messages of a connection are no parts of requests, and seven are, or eight with
// first values.
Answers AnswersInOrder(uint8_t setup) {
  return Answers(setup).Say(0, HelloAnswer()).Say(0, OpenedAs("async")).SayAbout(2, 8);
}

Answers AnswersInAnyOrder() {
  Answers answers(static_cast<uint8_t>(WireFloat::kBfloat16));
  answers.Say(0, HelloAnswer()).Say(0, OpenedAs("async")).SayAbout(7, 8).SayAbout(4, 5);
  return answers.SayAbout(4, 5).SayAbout(2, 3, kAsksForMore).SayAbout(6, 6).SayAbout(9, 15);
}

Answers FirstValuesAreWanted() {
  Reply created = OpenedAs("sync:replicas=2");
  created.operation = Operation::kCreate;
  created.status = Status::kValuesWanted;
  return Answers(kCreates | kOtherThread)
      .Say(0, HelloAnswer({40213}))
      .Say(0, created)
      .SayAbout(2, 10);
}

// One message after the other, and twice what the first connection has lost.
Answers LittleAtATime() {
  Answers answers(kLittleUnderWay | static_cast<uint8_t>(WireFloat::kFloat16));
  answers.Say(0, HelloAnswer()).Say(0, OpenedAs("staleness:bound=1")).SayAbout(2, 4);
  answers.Say(kTakesNothing,
              {Operation::kExchange, Status::kWaiting, 0, 0, 3, 0, "worker:1 (step 3)"});
  answers.SayAbout(2, 5, kTakesNothing).SayAbout(2, 2, kBreaks);
  return answers.Say(0, HelloAnswer()).SayAbout(2, 9);
}

Answers Refusals() {
  Answers answers(0);
  answers.Say(0, HelloAnswer()).Say(0, OpenedAs("async"));
  for (const uint32_t number : {3U, 2U, 3U, 8U}) {
    Reply refused{Operation::kExchange, Status::kRefused, number, 0, 3, 0, "NaN"};
    refused.refusal = RefusalKind::kNotFinite;
    answers.Say(kOfASentOne, refused);
  }
  return answers.SayAbout(4, 7);
}

Answers APartThatWasNotAskedFor() {
  return AnswersInOrder(0).Say(kAsksForMore, {Operation::kExchange, Status::kDone, 3, 4, 3, 0, ""});
}

Answers TooFewBytes() {
  Answers answers(0);
  answers.Say(0, HelloAnswer()).Say(0, OpenedAs("async"));
  return answers.Say(kOfASentOne, {Operation::kExchange, Status::kDone, 2, 0, 3, 0, ""}, Floats(2));
}

Answers OpenIsRefused() {
  Answers answers(0);
  answers.Say(0, HelloAnswer());
  Reply refused{Operation::kOpen, Status::kRefused, 0, 0, 3, 77, "other shapes"};
  refused.refusal = RefusalKind::kMismatch;
  refused.remedy = "give every task the same model";
  return answers.Say(0, refused);
}

constexpr uint32_t kPlacedMark = 0x50687374;

// What shm_message_fuzz reads, step by step.
class Scribbles {
 public:
  // Of the message that the reader looks at next: its preamble (shm/message.h) and what lies
  // behind that, of which `produced` bytes are shown.
  Scribbles& Show(uint64_t produced, uint32_t header_bytes, uint64_t payload_bytes,
                  const std::string& behind = "", uint32_t mark = kMark) {
    ByteWriter preamble;
    preamble.Put(mark);
    preamble.Put(header_bytes);
    preamble.Put(payload_bytes);
    const std::string bytes = preamble.bytes() + behind;
    Append(bytes_, Scribble{kSetsProduced | kAsksWhetherReady, produced, 0, bytes});
    return *this;
  }
  Scribbles& SetProduced(uint64_t produced) {
    Append(bytes_, Scribble{kSetsProduced, produced, 0, ""});
    return *this;
  }
  Scribbles& Write(uint16_t place, const std::string& bytes) {
    Append(bytes_, Scribble{0, 0, place, bytes});
    return *this;
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  static constexpr uint32_t kMark = 0x4d687374;

  std::string bytes_;
};

Scribbles MessagesInARow() {
  Scribbles scribbles;
  scribbles.Show(128, 20, 12, std::string(20, 'h') + std::string(28, '\0') + Floats(3));
  scribbles.Show(64, 0, 0).Show(64, 48, 0, std::string(48, 'h'));
  return scribbles.Show(192, 0, 65, "").Show(0, 0, 0);
}

// A message is shown in pieces: nothing, a part of its preamble's line, that line, all of it.
Scribbles MessageInPieces() {
  Scribbles scribbles;
  scribbles.Show(0, 20, 100, std::string(20, 'h'));
  scribbles.SetProduced(63).SetProduced(64).Write(64, Floats(16)).SetProduced(191);
  return scribbles.SetProduced(192).SetProduced(0);
}

// The second one goes on where the ring begins.
Scribbles MessagesAcrossTheEnd() {
  constexpr uint64_t kMost = shm::kMinRingBytes - 64;
  Scribbles scribbles;
  scribbles.Show(kMost, 48, kMost - 64, std::string(48, 'h')).SetProduced(0);
  scribbles.Show(192, 80, 48, std::string(80, 'h') + std::string(32, '\0') + Floats(12));
  return scribbles.SetProduced(0).Show(kMost + 64, 0, kMost);
}

// Behind the preamble of a placed message stands where its payload lies.
Scribbles Placed(uint64_t place, uint64_t payload_bytes) {
  ByteWriter behind;
  behind.Put(place);
  Scribbles scribbles;
  scribbles.Show(64, 20, payload_bytes, behind.bytes() + std::string(20, 'h'), kPlacedMark);
  return scribbles.Show(64, 0, 0);
}

Scribbles TooLarge(uint32_t header_bytes, uint64_t payload_bytes) {
  return Scribbles().Show(shm::kMinRingBytes, header_bytes, payload_bytes);
}

// What it overwrites has not been given back.
Scribbles MoreThanTheRing() { return Scribbles().Show(64, 0, 0).Show(shm::kMinRingBytes, 0, 0); }

std::string Bytes(const Request& request) { return Encode(request).to_string(); }
std::string Bytes(const Reply& reply) { return Encode(reply).to_string(); }

Request PlacedExchange() {
  Request request = Part(Operation::kExchange, 3, {{0, 4}}, {{0, 2}});
  request.part.place = 4096;
  return request;
}

TEST(FuzzCorpus, HasARequestOfEachKind) {
  ExpectCorpus(kCorpus / "request",
               {{"hello", Bytes(HelloOf("worker:1"))},
                {"create", Bytes(Create("sync:replicas=2"))},
                {"create_with_tables", Bytes(Create("async"))},
                {"open", Bytes(Open())},
                {"exchange", Bytes(Part(Operation::kExchange, 3, {{0, 4}}, {{0, 2}, {8, 8}}))},
                {"assign", Bytes(Part(Operation::kAssign, 1, {{0, 7}}, {}))},
                {"narrow_exchange",
                 Bytes(Narrow(Part(Operation::kExchange, 3, {{0, 4}}, {{0, 2}, {8, 8}})))},
                {"placed_exchange", Bytes(PlacedExchange())},
                {"goodbye", Bytes(Make(Operation::kGoodbye))},
                {"end", Bytes(Make(Operation::kEnd))},
                {"local", Bytes(Local())},
                {"save", Bytes(Save())},
                {"restore", Bytes(Restore())},
                {"rows", Bytes(Rows(4, {{0, 5, 6}, {7, 0, 1}, {8, 0, 0, true}}))}});
}

Reply ReplyAtTheEnd() {
  Reply reply{Operation::kEnd, Status::kDone, 0, 0, 3, 0, ""};
  reply.queue = 7;
  reply.held = 2;
  reply.idle_microseconds = 1'000'000;
  reply.is_over = true;
  return reply;
}

TEST(FuzzCorpus, HasAReplyOfEachKind) {
  ExpectCorpus(
      kCorpus / "reply",
      {{"local",
        Bytes(Reply{Operation::kLocal, Status::kDone, 0, 0, 0, 0, "", 0, "", false, "an offer"})},
       {"end", Bytes(ReplyAtTheEnd())},
       {"saved", Bytes(Reply{Operation::kSave, Status::kDone, 0, 9, 503, 0, ""})},
       {"done", Bytes(Reply{Operation::kExchange, Status::kDone, 3, 9, 12, 0, "", 11})},
       {"hello",
        Bytes(
            Reply{Operation::kHello, Status::kDone, 0, 0, 3, 0, "", 0, "", false, "", {2, 40213}})},
       {"created",
        Bytes(Reply{Operation::kCreate, Status::kValuesWanted, 0, 0, 0, 77, "", 0, "async", true})},
       {"opened",
        Bytes(Reply{
            Operation::kOpen, Status::kDone, 0, 0, 3, 77, "", 3, "async", true, "", {}, true})},
       {"refused", Bytes(Reply{Operation::kOpen, Status::kRefused, 0, 0, 3, 77, "why"})},
       {"rows", Bytes(Reply{Operation::kRows, Status::kDone, 1, 10, 12, 0, "", 11})},
       {"assign", Bytes(Reply{Operation::kAssign, Status::kDone, 2, 1, 0, 0, ""})},
       {"refused_exchange",
        Bytes(Reply{Operation::kExchange, Status::kRefused, 3, 9, 12, 0, "message: bad range"})},
       {"waiting",
        Bytes(Reply{Operation::kExchange, Status::kWaiting, 0, 0, 3, 0, "worker:1 (step 3)"})}});
}

TEST(FuzzCorpus, HasConversations) {
  ExpectCorpus(kCorpus / "service",
               {{"empty_server", EmptyServer().bytes()},
                {"async", PushesAndPulls(ServerKind::kTables).bytes()},
                {"sync", PushesAndPulls(ServerKind::kSync).bytes()},
                {"staleness", PushesAndPulls(ServerKind::kStaleness).bytes()},
                {"pushes_without_end", PushesWithoutEnd().bytes()},
                {"push_in_parts", PushInParts().bytes()},
                {"narrow_values", NarrowValues().bytes()},
                {"rows", RowsOfTables(ServerKind::kTables).bytes()},
                {"lazy_rows", RowsOfTables(ServerKind::kLazyTables).bytes()},
                {"all_rows", AllRowsMove(ServerKind::kAllRows).bytes()},
                {"sync_all_rows", AllRowsMove(ServerKind::kSyncAllRows).bytes()},
                {"sync_rows", RowsThatWait(ServerKind::kSync).bytes()},
                {"staleness_rows", RowsThatWait(ServerKind::kStaleness).bytes()},
                {"training_ends", TrainingEnds().bytes()},
                {"comes_and_goes", ComesAndGoes().bytes()}});
}

TEST(FuzzCorpus, HasAnswersToALink) {
  ExpectCorpus(kCorpus / "link",
               {{"in_order", AnswersInOrder(0).bytes()},
                {"float16", AnswersInOrder(static_cast<uint8_t>(WireFloat::kFloat16)).bytes()},
                {"in_any_order", AnswersInAnyOrder().bytes()},
                {"first_values", FirstValuesAreWanted().bytes()},
                {"little_at_a_time", LittleAtATime().bytes()},
                {"refusals", Refusals().bytes()},
                {"part_not_asked_for", APartThatWasNotAskedFor().bytes()},
                {"too_few_bytes", TooFewBytes().bytes()},
                {"open_refused", OpenIsRefused().bytes()}});
}

TEST(FuzzCorpus, HasMessagesInARing) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  ExpectCorpus(kCorpus / "shm_message",
               {{"in_a_row", MessagesInARow().bytes()},
                {"in_pieces", MessageInPieces().bytes()},
                {"across_the_end", MessagesAcrossTheEnd().bytes()},
                {"header_too_large", TooLarge(UINT32_MAX, 0).bytes()},
                {"payload_too_large", TooLarge(0, kMax).bytes()},
                {"sum_too_large", TooLarge(64, shm::kMinRingBytes).bytes()},
                {"no_mark", Scribbles().Show(64, 0, 0, "", 0).bytes()},
                {"placed", Placed(600, 400).bytes()},
                {"placed_elsewhere", Placed(601, 400).bytes()},
                {"goes_back", Scribbles().Show(64, 0, 0).Show(kMax - 31, 0, 0).bytes()},
                {"more_than_the_ring", MoreThanTheRing().bytes()}});
}

// As Offer writes it (shm/offer.cc), but the same everywhere.
TEST(FuzzCorpus, HasAnOfferOfSharedMemory) {
  ByteWriter offer;
  offer.Put(uint16_t{2});
  offer.PutText("tfdist-shm-of-a-server-that-is-gone");
  offer.PutText(std::string(32, 'c'));
  offer.PutText(std::string(32, 's'));
  offer.Put(uint64_t{4} * 1024 * 1024);
  ExpectCorpus(kCorpus / "shm_offer", {{"offer", offer.bytes()}});
}

TEST(FuzzCorpus, HasManifests) {
  ExpectCorpus(kCorpus / "manifest",
               {{"two_shards", EncodeManifest({500, 9, 498, {{100, 7}, {200, 8}}})},
                {"no_shards", EncodeManifest({0, 0, 0, {}})}});
}

// As WriteShard writes them, in the form of shard_image.h.
std::string ShardInput(const ShardInfo& info, std::vector<TensorSource> tensors) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "shard";
  WriteShard(path, info, std::move(tensors), {});
  const std::string file = ReadFileIfExists(path, 1 << 20).value();
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  return file.substr(sizeof length, length) + "\n" + file.substr(sizeof length + length);
}

TEST(FuzzCorpus, HasShards) {
  ShardInfo info;
  info.id = 9;
  info.step = 500;
  info.optimizer = "adam:learning_rate=0.01";
  info.update_mode = "async";
  info.variables = {{{"w/part_1", {2, 3}}, {"w", {4, 3}, 6}}};
  info.tables = {{"words", 2, 3, 1, 4}};
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const auto tensor = [&](const std::string& name, size_t floats) {
    return TensorSource{{name, {static_cast<uint32_t>(floats)}},
                        {{std::span(values).first(floats), nullptr}}};
  };
  ExpectCorpus(
      kCorpus / "shard",
      {{"variable_and_table",
        ShardInput(info, {tensor("w/part_1", 6), tensor("w/part_1#m", 6),
                          tensor("w/part_1#powers", 2), tensor("words/rows_1_step_4", 6)})},
       {"no_tensors", ShardInput({}, {})}});
}

TEST(FuzzCorpus, HasZapRequests) {
  const std::string key(32, 'a');
  const auto request = [](const std::string& version, const std::string& mechanism,
                          const std::string& credentials) {
    return FromParts({version, "7", "", "10.0.0.1", "", mechanism, credentials});
  };
  ExpectCorpus(kCorpus / "runtime_zap",
               {{"known_key", request("1.0", "CURVE", key)},
                {"unknown_key", request("1.0", "CURVE", std::string(32, 'c'))},
                {"short_key", request("1.0", "CURVE", key.substr(1))},
                {"long_key", request("1.0", "CURVE", key + "a")},
                {"no_key", request("1.0", "CURVE", "")},
                {"other_version", request("1.1", "CURVE", key)},
                {"plain_mechanism", request("1.0", "PLAIN", key)},
                {"one_part_more", request("1.0", "CURVE", key) + FromParts({key})},
                {"one_part_less", FromParts({"1.0", "7", "", "10.0.0.1", "", "CURVE"})},
                {"nothing", ""}});
}

}  // namespace
}  // namespace tfdist::runtime::fuzz
