// A server that was set up by honest trainers hears anything from authenticated ones. A message
// that it refuses changes no value, its replies are well-formed and of bounded size, and an honest
// trainer is answered in the end.
#include <array>
#include <cassert>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "runtime/fuzz/conversation.h"
#include "runtime/ps/service/service.h"
#include "runtime/transport/blocks.h"

namespace tfdist::runtime::fuzz {
namespace {

constexpr uint32_t kAttempt = 2;
constexpr uint64_t kClient = 1;

// One block, of more floats than are copied into an answer.
const std::vector<TensorSpec> kVariables = {{"w", {2}}, {"b", {1}}, {"large", {1500}}};
constexpr uint32_t kFloats = 1503;
const std::vector<TablePart> kTables = {{"words", 5, 4, 0, 1, UniformRows(-1, 1, 5)},
                                        {"users", 3, 2, 1, 4, TruncatedNormalRows(0, 0.5F, 6)}};

// The last one is no trainer of the job. The honest one says nothing but what is written here.
const std::array<Peer, 4> kPeers = {
    {{"a", "master:0"}, {"b", "worker:0"}, {"c", "worker:1"}, {"d", "worker:9"}}};
const Peer kChief = kPeers[0];
const Peer kHonest = {"h", "worker:2"};

// Stands where the test puts it.
struct StillClock : Clock {
  [[nodiscard]] TimePoint Now() const override { return now; }
  TimePoint now;
};

Request Make(Operation operation) {
  Request request;
  request.operation = operation;
  request.attempt = kAttempt;
  request.client = kClient;
  return request;
}

Request CreateFor(ServerKind kind) {
  Request request = Make(Operation::kCreate);
  request.variables = kVariables;
  request.update_mode = "async";
  request.optimizer = "sgd:learning_rate=0.5";
  switch (kind) {
    case ServerKind::kEmpty:
      break;
    case ServerKind::kTables:
      request.tables = kTables;
      request.optimizer = "adagrad:learning_rate=0.5";
      break;
    case ServerKind::kLazyTables:
      request.tables = kTables;
      request.optimizer = "adam:learning_rate=0.5,lazy=true";
      break;
    case ServerKind::kSync:
      request.tables = kTables;
      request.update_mode = "sync:replicas=2";
      request.optimizer = "adam:learning_rate=0.5,lazy=true";
      break;
    case ServerKind::kStaleness:
      request.tables = kTables;
      request.update_mode = "staleness:bound=1";
      request.optimizer = "momentum:learning_rate=0.5,momentum=0.5";
      break;
    case ServerKind::kAllRows:
      request.tables = kTables;
      request.optimizer = "adam:learning_rate=0.5";
      break;
    case ServerKind::kSyncAllRows:
      request.tables = kTables;
      request.update_mode = "sync:replicas=2";
      request.optimizer = "adam:learning_rate=0.5";
      break;
  }
  return request;
}

// The chief may ask for more memory than a machine has: not what is looked for here.
bool AsksForMuch(const Request& request) {
  constexpr uint64_t kMuch = 1 << 16;  // floats
  uint64_t floats = 0;
  for (const TensorSpec& variable : request.variables) floats += ElementCount(variable);
  for (const TablePart& table : request.tables) {
    if (table.rows > kMuch || table.width > kMuch) return true;
    floats += uint64_t{table.rows} * table.width;
  }
  return floats > kMuch;
}

bool CreatesMuch(std::string_view header) {
  Request request;
  try {
    Decode(header, request);
  } catch (const Error&) {
    return false;
  }
  try {
    return AsksForMuch(request);
  } catch (const Error&) {
    return true;
  }
}

class Conversation {
 public:
  explicit Conversation(ServerKind kind);
  void Take(const Turn& turn);
  // Whatever was said, an honest trainer gets the values.
  void ExpectPullIsAnswered();

 private:
  void Say(const Peer& peer, const std::string& header, std::string_view payload);
  std::vector<Outgoing> Tell(const Peer& peer, const Message& message);
  void Keep(std::vector<Outgoing> replies);
  Reply Ask(const Peer& peer, const Request& request, std::string_view payload = {});
  Request PartRequest(Operation operation);
  std::string Header(std::string_view header, int later) const;
  std::string Values();
  std::string Rows();

  StillClock clock_;
  Service service_{{kAttempt,
                    {"master:0", "worker:0", "worker:1", "worker:2"},
                    "master:0",
                    std::chrono::seconds(10),
                    &clock_}};
  std::vector<Outgoing> kept_;  // replies under way: they refer to values of the service
  uint64_t creation_ = 0;
  bool set_up_ = false;  // here, with kVariables
  bool tables_ = false;
  std::string values_;  // after the last message
  bool repeated_ = false;
};

Conversation::Conversation(ServerKind kind) {
  for (const Peer& peer : {kPeers[0], kPeers[1], kPeers[2], kHonest}) {
    Request hello = Make(Operation::kHello);
    hello.task = peer.task;
    Ask(peer, hello);
  }
  if (kind == ServerKind::kEmpty) return;
  const Request create = CreateFor(kind);
  tables_ = !create.tables.empty();
  creation_ = Ask(kChief, create).creation;
  Request assign = PartRequest(Operation::kAssign);
  assign.part.push = {{0, kFloats}};
  Ask(kChief, assign, std::string(kFloats * sizeof(float), '\0'));
  set_up_ = service_.store().created();
  assert(set_up_);
  values_ = Values();
}

void Conversation::Take(const Turn& turn) {
  if ((turn.what & kTimePasses) != 0) {
    clock_.now += std::chrono::seconds(2);
    std::vector<Outgoing> notices;
    service_.Tick(notices);
    Keep(std::move(notices));
  }
  if (!service_.store().declared() && CreatesMuch(turn.header)) return;
  const Peer& peer = kPeers[turn.what & kPeerMask];
  const bool again = (turn.what & kAgainAndAgain) != 0 && !std::exchange(repeated_, true);
  for (int i = 0; i < (again ? kTimesAgain : 1); ++i)
    Say(peer, Header(turn.header, i), turn.payload);
  if ((turn.what & kGoneAfterwards) != 0) service_.Gone(peer);
}

void Conversation::Say(const Peer& peer, const std::string& header, std::string_view payload) {
  const uint64_t refused = service_.counters().refused;
  Keep(Tell(peer, {zmq::message_t(header), zmq::message_t(payload)}));
  const std::string before = std::exchange(values_, Values());
  assert(service_.counters().refused == refused || values_ == before);
}

void Conversation::ExpectPullIsAnswered() {
  if (!set_up_) return;
  Request pull = PartRequest(Operation::kExchange);
  pull.part.pull = {{0, kFloats}};
  const auto replies = Tell(kHonest, {Encode(pull), {}});
  assert(replies.size() == 1 && replies[0].to.route == kHonest.route);
  const std::span<const float> values = service_.store().Values(0);
  const zmq::message_t& payload = replies[0].message.payload;
  assert(payload.size() == values.size_bytes());
  assert(std::memcmp(payload.data(), values.data(), payload.size()) == 0);
}

std::vector<Outgoing> Conversation::Tell(const Peer& peer, const Message& message) {
  std::vector<Outgoing> replies;
  service_.Handle(peer, message, replies);
  for (Outgoing& reply : replies) reply.message.Write();
  return replies;
}

void Conversation::Keep(std::vector<Outgoing> replies) {
  for (Outgoing& sent : replies) {
    Reply reply;
    Decode(sent.message.header.to_string_view(), reply);
    assert(sent.message.payload.size() <= kMaxBlockBytes);
    if (reply.creation != 0) creation_ = reply.creation;
    kept_.push_back(std::move(sent));
  }
}

Reply Conversation::Ask(const Peer& peer, const Request& request, std::string_view payload) {
  const auto replies = Tell(peer, {Encode(request), zmq::message_t(payload)});
  assert(replies.size() == 1);
  Reply reply;
  Decode(replies[0].message.header.to_string_view(), reply);
  assert(reply.status != Status::kRefused);
  return reply;
}

Request Conversation::PartRequest(Operation operation) {
  Request request = Make(operation);
  request.part.creation = creation_;
  request.part.sequence = 1;
  request.part.oldest = 1;
  return request;
}

// With the creation filled in, and `later` added to the sequence number.
std::string Conversation::Header(std::string_view header, int later) const {
  constexpr size_t kCreationAt = 15;  // version, operation, attempt, client
  uint64_t fields[2];                 // creation, sequence
  std::string own(header);
  if (header.size() < kCreationAt + sizeof fields) return own;
  std::memcpy(fields, own.data() + kCreationAt, sizeof fields);
  if (fields[0] == 0) fields[0] = creation_;
  fields[1] += static_cast<uint64_t>(later);
  std::memcpy(own.data() + kCreationAt, fields, sizeof fields);
  return own;
}

// All that a pull shows, and the number of the step. In a policy's eyes nobody has asked.
std::string Conversation::Values() {
  if (!set_up_) return {};
  const std::span<const float> values = service_.store().Values(0);
  std::string bytes(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  if (tables_) bytes += Rows();
  return bytes + std::to_string(service_.counters().updates);
}

std::string Conversation::Rows() {
  std::string bytes;
  for (uint32_t i = 0; i < kTables.size(); ++i) {
    std::vector<uint32_t> rows(kTables[i].rows);
    std::iota(rows.begin(), rows.end(), 0);
    std::vector<float> values(rows.size() * kTables[i].width);
    const TableStore::Section all{i, rows, {kTables[i].width, {}, {}}};
    service_.tables().Pull({&all, 1}, values.data());
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }
  return bytes;
}

void Run(std::string_view input) {
  if (input.empty()) return;
  Conversation conversation(static_cast<ServerKind>(static_cast<uint8_t>(input[0]) % kServerKinds));
  input.remove_prefix(1);
  for (Turn turn; TakeTurn(input, turn);) conversation.Take(turn);
  conversation.ExpectPullIsAnswered();
}

}  // namespace
}  // namespace tfdist::runtime::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tfdist::runtime::fuzz::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
