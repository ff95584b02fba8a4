// A trainer's link has requests under way, and the server answers anything. The link goes on, or
// says so in an Error: it writes nothing but the caller's targets, and nothing when a request has
// ended, which is when all of its parts were answered; it sends each message once per connection,
// well-formed. When there was no Error, and the next connection leads to an honest server, all
// requests end.
#include <array>
#include <cassert>
#include <cstring>
#include <deque>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/client/link.h"
#include "runtime/fuzz/answers.h"

namespace tfdist::runtime::fuzz {
namespace {

constexpr uint64_t kCreation = 7;
constexpr size_t kMuch = size_t{1} << 20;
constexpr size_t kLittle = 4096;
constexpr int kMaxRounds = 4;
// Of the tables, whose rows are copied in three ways.
constexpr std::array<size_t, 3> kWidths = {4, 2, 16};

// What was sent, as far as an answer is about it.
struct Sent {
  Operation operation;
  uint64_t sequence;
  uint32_t number;
  size_t answer_bytes;  // of the payload
};

size_t BytesOf(const std::vector<Range>& ranges, WireFloat values) {
  return FloatsOf(ranges) * SizeOf(values);
}

size_t PayloadBytes(const PartHeader& part) {
  size_t bytes = BytesOf(part.push, part.values);
  for (const RowCounts& counts : part.rows) {
    bytes += (counts.push + counts.pull) * sizeof(uint32_t);
    bytes += counts.push * kWidths[counts.table] * sizeof(float);
  }
  return bytes;
}

size_t AnswerBytes(const PartHeader& part) {
  size_t bytes = BytesOf(part.pull, part.values);
  for (const RowCounts& counts : part.rows) {
    bytes += counts.pull * kWidths[counts.table] * sizeof(float);
  }
  return bytes;
}

// What the header of a reply says that it is about.
struct AboutPart {
  uint64_t sequence;
  uint32_t number;

  auto operator<=>(const AboutPart&) const = default;
};
constexpr size_t kNumberAt = 4;  // version, operation, status
constexpr size_t kSequenceAt = kNumberAt + sizeof(uint32_t);
constexpr size_t kAboutPartEnd = kSequenceAt + sizeof(uint64_t);

AboutPart ReadAboutPart(std::string_view header) {
  AboutPart about{};
  std::memcpy(&about.number, header.data() + kNumberAt, sizeof about.number);
  std::memcpy(&about.sequence, header.data() + kSequenceAt, sizeof about.sequence);
  return about;
}

// An Error would be caught as one about the server; that of a message of ours ends the program.
Request DecodeOurs(const Message& message) noexcept {
  Request request;
  Decode(message.header.to_string_view(), request);
  assert(message.payload.size() == PayloadBytes(request.part));
  return request;
}

// A frame that lies in memory as those of ZeroMQ and of the ring do: anywhere, with nothing of ours
// behind it. Valid until the next one.
class Frame {
 public:
  zmq::message_t Show(std::string_view bytes) {
    if (bytes.empty()) return {};
    bytes_ = std::make_unique<char[]>(1 + bytes.size());
    std::memcpy(&bytes_[1], bytes.data(), bytes.size());
    return {&bytes_[1], bytes.size(), nullptr};
  }

 private:
  std::unique_ptr<char[]> bytes_;
};

class FakeConnection : public Connection {
 public:
  bool Send(Message& message) override {
    if (!takes_) return false;
    message.Write();
    const Request request = DecodeOurs(message);
    const PartHeader& part = request.part;
    sent_.push_back({request.operation, part.sequence, part.number, AnswerBytes(part)});
    message = {};
    return true;
  }
  bool HasRoomFor(size_t) override { return takes_; }
  bool Receive(Message& into) override {
    if (arrived_.empty()) return false;
    into.header = header_.Show(arrived_.front().first);
    into.payload = payload_.Show(arrived_.front().second);
    arrived_.pop_front();
    return true;
  }
  Event NextEvent() override {
    if (events_.empty()) return Event::kNone;
    const Event next = events_.front();
    events_.pop_front();
    if (next == Event::kMade) sent_.clear();
    return next;
  }
  bool BeforePoll(std::vector<pollfd>&) override { return false; }

  void Arrive(std::string header, std::string payload) {
    arrived_.emplace_back(std::move(header), std::move(payload));
  }
  void Happen(Event event) { events_.push_back(event); }
  void SetTakes(bool takes) { takes_ = takes; }
  // On this connection.
  [[nodiscard]] const std::vector<Sent>& sent() const { return sent_; }

 private:
  bool takes_ = true;
  std::deque<Event> events_{Event::kMade};
  std::deque<std::pair<std::string, std::string>> arrived_;
  std::vector<Sent> sent_;
  Frame header_;  // of the message that arrived last
  Frame payload_;
};

// A request, and the caller's memory: each piece by itself, so that the address sanitizer sees what
// is written beside it.
class Asked {
 public:
  void AddBlock(uint32_t block, const std::vector<Range>& push, const std::vector<Range>& pull) {
    RequestPart& part = parts_.emplace_back();
    part.block = block;
    for (const Range& range : push) part.push.push_back({range, NewPiece(range.count)});
    for (const Range& range : pull) part.pull.push_back({range, NewPiece(range.count)});
  }
  void AddRows(std::vector<RowsSlice> push, std::vector<RowsSlice> pull) {
    RequestPart& part = parts_.emplace_back();
    for (RowsSlice& slice : push) slice.gradients = NewPiece(slice.rows.size() * slice.width);
    for (RowsSlice& slice : pull) slice.values = NewPiece(slice.rows.size() * slice.width);
    part.push_rows = std::move(push);
    part.pull_rows = std::move(pull);
  }
  // Returns how many requests the link has made of it.
  size_t Begin(Link& link, Operation operation, bool is_push, uint64_t sequence) {
    sequence_ = sequence;
    part_count_ = static_cast<uint32_t>(parts_.size());
    state_->is_push = is_push;
    link.Begin(state_, operation, std::move(parts_));
    return state_->servers;
  }
  [[nodiscard]] bool ended() const { return state_->ended(); }
  [[nodiscard]] bool WasAnswered(const std::set<AboutPart>& heard) const {
    for (uint32_t number = 0; number < part_count_; ++number) {
      if (!heard.contains({sequence_, number})) return false;
    }
    return true;
  }

 private:
  float* NewPiece(size_t floats) {
    return pieces_.emplace_back(std::make_unique<float[]>(floats)).get();
  }

  std::shared_ptr<RequestState> state_ = std::make_shared<RequestState>();
  std::vector<std::unique_ptr<float[]>> pieces_;
  std::vector<RequestPart> parts_;  // until it begins
  uint64_t sequence_ = 0;           // of the first request
  uint32_t part_count_ = 0;         // of that one
};

RowsSlice Slice(uint32_t table, std::span<const uint32_t> rows,
                std::span<const uint32_t> positions = {}) {
  return {table, kWidths[table], rows, positions};
}

Asked FirstValues() {
  Asked asked;
  asked.AddBlock(0, {{0, 7}}, {});
  asked.AddBlock(1, {{0, 3}, {3, 1}}, {});
  return asked;
}

// Enough values of the second block are pushed that they are sent from where they lie.
Asked PushAndPull() {
  Asked asked;
  asked.AddBlock(0, {{0, 3}, {3, 2}, {9, 1}}, {{0, 2}, {4, 1}});
  asked.AddBlock(1, {{0, 2100}}, {{0, 5}});
  asked.AddBlock(2, {}, {{1, 3}});
  return asked;
}

Asked Pull() {
  Asked asked;
  asked.AddBlock(0, {}, {{7, 1}});
  asked.AddBlock(3, {}, {{0, 8}});
  return asked;
}

Asked Rows() {
  static constexpr uint32_t kRows[] = {4, 1, 0};
  static constexpr uint32_t kPositions[] = {2, 0, 1};
  Asked asked;
  RowsSlice none = Slice(1, {});
  none.push_ends = true;
  asked.AddRows({Slice(0, kRows, kPositions), none, Slice(2, kRows)},
                {Slice(0, kRows, kPositions)});
  asked.AddRows({}, {Slice(1, kRows), Slice(2, kRows, kPositions)});
  return asked;
}

Request HelloOfOurs() {
  Request hello;
  hello.attempt = 2;
  hello.client = 1;
  hello.task = "worker:0";
  return hello;
}

WireFloat ValuesOf(uint8_t setup) {
  const uint8_t values = setup & kValuesMask;
  return values == kValuesMask ? WireFloat::kFloat32 : static_cast<WireFloat>(values);
}

class Conversation {
 public:
  explicit Conversation(uint8_t setup);
  void Take(const Turn& turn);
  void ExpectAnHonestServerEndsAll() noexcept;  // there is nothing that an Error could be about

 private:
  void Hear(std::string header, std::string payload);
  void AskForMore();
  void Begin(Asked asked, Operation operation, bool is_push);
  void ConnectAnew();
  void LetGo();
  [[nodiscard]] std::string Header(const Turn& turn) const;
  [[nodiscard]] std::string Payload(const Turn& turn, const std::string& header) const;
  [[nodiscard]] Reply HonestAnswer(const Sent& message) const;

  std::deque<Asked> asked_;  // what has not ended
  std::unique_ptr<FakeConnection> made_ =
      std::make_unique<FakeConnection>();  // until it is link_'s
  FakeConnection& connection_ = *made_;
  size_t other_threads_;
  Link link_;
  int rounds_ = 0;
  uint64_t next_sequence_ = 1;
  std::set<AboutPart> heard_;  // what answers were about, or messages that look like one
  size_t most_sent_ = 2;       // messages on one connection: hello, the question, parts
};

Conversation::Conversation(uint8_t setup)
    : other_threads_((setup & kOtherThread) != 0 ? 1 : 0),
      link_("ps:0", std::move(made_), HelloOfOurs(),
            (setup & kLittleUnderWay) != 0 ? kLittle : kMuch, ValuesOf(setup), other_threads_) {
  Request question;
  question.operation = (setup & kCreates) != 0 ? Operation::kCreate : Operation::kOpen;
  link_.Ask(std::move(question));
  link_.FollowConnection();
  link_.MoveOn();
}

void Conversation::Take(const Turn& turn) {
  connection_.SetTakes((turn.what & kTakesNothing) == 0);
  if ((turn.what & kBreaks) != 0) ConnectAnew();
  if ((turn.what & kAsksForMore) != 0) AskForMore();
  const std::string header = Header(turn);
  Hear(header, Payload(turn, header));
  if (rounds_ == 0) AskForMore();
}

void Conversation::Hear(std::string header, std::string payload) {
  if (header.size() >= kAboutPartEnd) heard_.insert(ReadAboutPart(header));
  connection_.Arrive(std::move(header), std::move(payload));
  link_.MoveOn();
  assert(connection_.sent().size() <= most_sent_);
  (void)link_.WaitsFor(nullptr);
  LetGo();
}

// A client begins nothing before the server has told about the variables.
void Conversation::AskForMore() {
  if (!link_.facts().opened() || rounds_ == kMaxRounds) return;
  ++rounds_;
  if (link_.facts().values_wanted) Begin(FirstValues(), Operation::kAssign, false);
  Begin(PushAndPull(), Operation::kExchange, true);
  Begin(Pull(), Operation::kExchange, false);
  Begin(Rows(), Operation::kExchange, true);
  link_.SendWhatMayBe();
}

void Conversation::Begin(Asked asked, Operation operation, bool is_push) {
  // Three parts at most, each twice where a push waits for others.
  most_sent_ += 6;
  asked_.push_back(std::move(asked));
  next_sequence_ += asked_.back().Begin(link_, operation, is_push, next_sequence_);
}

void Conversation::ConnectAnew() {
  connection_.Happen(Connection::Event::kBroken);
  connection_.Happen(Connection::Event::kMade);
  link_.FollowConnection();
  link_.MoveOn();
}

// The caller owns the memory of calls that have ended, and needs it no more.
void Conversation::LetGo() {
  std::erase_if(asked_, [&](const Asked& asked) {
    assert(!asked.ended() || asked.WasAnswered(heard_));
    return asked.ended();
  });
}

void Conversation::ExpectAnHonestServerEndsAll() noexcept {
  connection_.SetTakes(true);
  ConnectAnew();
  for (size_t answered = 0; answered < connection_.sent().size(); ++answered) {
    const Sent& message = connection_.sent()[answered];
    const Reply answer = HonestAnswer(message);
    Hear(Encode(answer).to_string(), std::string(message.answer_bytes, '\0'));
    if (rounds_ == 0) AskForMore();
  }
  assert(asked_.empty() && link_.requests_under_way() == 0);
  assert(!link_.asking() && link_.WaitsFor(nullptr).empty());
}

Reply Conversation::HonestAnswer(const Sent& message) const {
  Reply reply;
  reply.operation = message.operation;
  reply.number = message.number;
  reply.sequence = message.sequence;
  reply.creation = kCreation;
  reply.update_mode = "async";
  if (message.operation == Operation::kHello) reply.ports.resize(other_threads_, 2222);
  return reply;
}

std::string Conversation::Header(const Turn& turn) const {
  std::string header(turn.header);
  const std::vector<Sent>& sent = connection_.sent();
  if ((turn.what & kOfASentOne) == 0 || header.size() < kAboutPartEnd || sent.empty()) {
    return header;
  }
  const Sent& message = sent[ReadAboutPart(header).number % sent.size()];
  std::memcpy(&header[kNumberAt], &message.number, sizeof message.number);
  std::memcpy(&header[kSequenceAt], &message.sequence, sizeof message.sequence);
  return header;
}

std::string Conversation::Payload(const Turn& turn, const std::string& header) const {
  std::string payload(turn.payload);
  if ((turn.what & kFits) == 0 || header.size() < kAboutPartEnd) return payload;
  const AboutPart about = ReadAboutPart(header);
  for (const Sent& message : connection_.sent()) {
    if (message.sequence != about.sequence || message.number != about.number) continue;
    payload.resize(message.answer_bytes);
    break;
  }
  return payload;
}

void Run(std::string_view input) {
  if (input.empty()) return;
  try {
    Conversation conversation(static_cast<uint8_t>(input[0]));
    input.remove_prefix(1);
    for (Turn turn; TakeTurn(input, turn);) conversation.Take(turn);
    conversation.ExpectAnHonestServerEndsAll();
  } catch (const Error&) {
  }
}

}  // namespace
}  // namespace tfdist::runtime::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tfdist::runtime::fuzz::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
