// Writes, or compares, the first inputs of the runtime's fuzz targets. Those of tf_config_fuzz are
// written by hand.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/testing/fuzz_corpus.h"
#include "runtime/bytes.h"
#include "runtime/fuzz/conversation.h"
#include "runtime/transport/messages.h"

namespace tfdist::runtime::fuzz {
namespace {

const std::filesystem::path kCorpus = TFDIST_TEST_SOURCE_DIR "/runtime/fuzz/corpus";

const std::vector<TensorSpec> kVariables = {{"w", {2, 3}}, {"scale", {}}};
const std::vector<TablePart> kTables = {{"words", 10, 16, 0, 1, UniformRows(-1, 1, 5)},
                                        {"users", 3, 2, 1, 4, TruncatedNormalRows(0, 0.5F, 6)}};

// As service_fuzz has its trainers: attempt 2, run 1.
Request Make(Operation operation) {
  Request request;
  request.operation = operation;
  request.attempt = 2;
  request.run = 1;
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
  request.update = update;
  request.variables = kVariables;
  if (update == "async") request.tables = kTables;
  return request;
}

Request Open() {
  Request request = Make(Operation::kOpen);
  request.variables = kVariables;
  request.tables = kTables;
  return request;
}

// A part about the first block, of the server's own store.
Request Part(Operation operation, uint64_t sequence, std::vector<Range> push,
             std::vector<Range> pull) {
  Request request = Make(operation);
  request.part.sequence = sequence;
  request.part.oldest = sequence;
  request.part.update = operation == Operation::kExchange && !push.empty();
  request.part.push = std::move(push);
  request.part.pull = std::move(pull);
  return request;
}

Request Narrow(Request request) {
  request.part.values = WireFloat::kBfloat16;
  return request;
}

Request Local() {
  Request request = Make(Operation::kLocal);
  request.host = "00000000-0000-0000-0000-000000000000/4026531840";
  return request;
}

Request Rows(uint64_t sequence, std::vector<RowCounts> counts) {
  Request request = Part(Operation::kRows, sequence, {}, {});
  request.part.update = true;
  request.part.rows = std::move(counts);
  return request;
}

std::string Floats(size_t count) {
  const std::vector<float> floats(count, 0.5F);
  return {reinterpret_cast<const char*>(floats.data()), count * sizeof(float)};
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

Script RowsOfTables(ServerKind kind) {
  Script script(kind);
  script.Say(kWorker0, Rows(1, {{0, 2, 1}, {1, 1, 2}}),
             RowNumbers({4, 4, 0}) + Floats(8) + RowNumbers({2, 0, 1}) + Floats(2));
  return script.Say(kWorker1, Rows(1, {{1, 0, 3}}), RowNumbers({0, 1, 2}));
}

Script RowsThatWait(ServerKind kind) {
  Script script(kind);
  const Request push = Rows(1, {{0, 2, 1}});
  script.Say(kWorker0, push, RowNumbers({4, 1, 0}) + Floats(8));
  script.Say(kWorker0, Rows(2, {{1, 0, 1}}), RowNumbers({2}));
  script.Say(kWorker1, Rows(1, {{0, 1, 2}}), RowNumbers({4, 4, 1}) + Floats(4));
  return script.Say(kWorker0 | kTimePasses, push, RowNumbers({4, 1, 0}) + Floats(8));
}

Script ComesAndGoes() {
  Script script(ServerKind::kStaleness);
  script.Say(kStranger, HelloOf("worker:0")).Say(kWorker0, Make(Operation::kGoodbye));
  Request hello = HelloOf("worker:0");
  hello.run = 2;
  return script.Say(kWorker0, hello).Say(kChief, Create("staleness:bound=1"));
}

// More than a server holds answers for.
Script PushesWithoutEnd() {
  Script script(ServerKind::kStaleness);
  script.Say(kWorker1, Part(Operation::kExchange, 1, {}, {{0, 3}}));
  Request push = Part(Operation::kExchange, 1, {{0, 3}}, {});
  return script.Say(kWorker0 | kAgainAndAgain, push, Floats(3));
}

std::string Bytes(const Request& request) { return Encode(request).to_string(); }
std::string Bytes(const Reply& reply) { return Encode(reply).to_string(); }

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
                {"goodbye", Bytes(Make(Operation::kGoodbye))},
                {"local", Bytes(Local())},
                {"rows", Bytes(Rows(4, {{0, 5, 6}, {7, 0, 1}}))}});
}

TEST(FuzzCorpus, HasAReplyOfEachKind) {
  ExpectCorpus(
      kCorpus / "reply",
      {{"local",
        Bytes(Reply{Operation::kLocal, Status::kDone, 0, 0, 0, 0, "", 0, "", false, "an offer"})},
       {"done", Bytes(Reply{Operation::kExchange, Status::kDone, 3, 9, 12, 0, "", 11})},
       {"hello",
        Bytes(
            Reply{Operation::kHello, Status::kDone, 0, 0, 3, 0, "", 0, "", false, "", {2, 40213}})},
       {"created",
        Bytes(Reply{Operation::kCreate, Status::kValuesWanted, 0, 0, 0, 77, "", 0, "async", true})},
       {"refused", Bytes(Reply{Operation::kOpen, Status::kRefused, 0, 0, 3, 77, "why"})},
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
                {"rows", RowsOfTables(ServerKind::kTables).bytes()},
                {"lazy_rows", RowsOfTables(ServerKind::kLazyTables).bytes()},
                {"sync_rows", RowsThatWait(ServerKind::kSync).bytes()},
                {"staleness_rows", RowsThatWait(ServerKind::kStaleness).bytes()},
                {"comes_and_goes", ComesAndGoes().bytes()}});
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

}  // namespace
}  // namespace tfdist::runtime::fuzz
