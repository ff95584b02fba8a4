#include "runtime/transport/messages.h"

#include <gtest/gtest.h>

#include <random>

#include "runtime/common/cluster.h"
#include "runtime/testing/expect_error.h"
#include "runtime/transport/testing/sample_messages.h"

namespace tfdist::runtime {
namespace {

using testing::ExpectError;

const std::vector<TensorSpec> kVariables = {{"w", {2, 3}}, {"b", {3}}, {"scale", {}}};
const std::vector<TablePart> kTables = testing::SampleTables();

Request HelloOfWorkerOne() {
  return {Operation::kHello, 2, 0x1122334455667788, "worker:1", "", {}, {}};
}

// As in MESSAGES.md.
Request PushPullOfOneBlock() {
  Request request;
  request.operation = Operation::kExchange;
  request.attempt = 1;
  request.client = 0x0102030405060708;
  request.part = {0x1112131415161718, 3, 2, 0, 1, 5, true, {{0, 16}}, {{0, 8}, {12, 4}}, 7};
  return request;
}

Request PlacedPull() {
  Request request = PushPullOfOneBlock();
  request.part.place = 0x2122232425262728;
  return request;
}

Request CreateThatRestores() {
  Request request{Operation::kCreate, 1, 7, "", "sgd:learning_rate=0.5", kVariables, {}, "async"};
  request.restores = true;
  return request;
}

Request Save() {
  Request request{Operation::kSave, 1, 7, "", "", {}, {}};
  request.checkpoint = testing::SampleSave();
  return request;
}

Request Restore() {
  Request request{Operation::kRestore, 1, 7, "", "", {}, {}};
  request.checkpoint = testing::SampleRestore();
  return request;
}

std::vector<Request> Requests() {
  return {
      HelloOfWorkerOne(),
      {Operation::kCreate, 1, 7, "", "sgd:learning_rate=0.5", kVariables, {}, "sync:replicas=2"},
      {Operation::kOpen, 1, 7, "", "", kVariables, {}, "", kTables},
      PushPullOfOneBlock(),
      PlacedPull(),
      {Operation::kExchange,
       1,
       7,
       "",
       "",
       {},
       {9, 4, 4, 0, 1, 0, true, {{1, 2}}, {}, 0, WireFloat::kBfloat16}},
      {Operation::kAssign, 1, 7, "", "", {}, {9, 4, 4, 65'535, 65'536, 0, false, {{1, 2}}, {}}},
      {Operation::kGoodbye, 1, 7, "", "", {}, {}},
      {Operation::kRows,
       1,
       7,
       "",
       "",
       {},
       {9,
        4,
        4,
        1,
        2,
        0,
        true,
        {},
        {},
        3,
        WireFloat::kFloat32,
        {{0, 5, 6}, {7, 0, 1}, {8, 0, 1, true}}}},
      {Operation::kLocal, 1, 0, "", "", {}, {}, "", {}, "boot/4026531840"},
      CreateThatRestores(),
      Save(),
      Restore(),
      {Operation::kEnd, 1, 7, "", "", {}, {}}};
}

Reply SavedReply() {
  Reply reply{Operation::kSave, Status::kDone, 0, 9, 503, 0, ""};
  reply.saved = {4096, 0x12345678};
  reply.saved_step = 501;
  return reply;
}

Reply ReplyOfALoadedServer() {
  Reply reply{Operation::kExchange, Status::kDone, 3, 9, 1234, 0, "", 1233};
  reply.queue = 70'000;
  reply.held = 3;
  reply.idle_microseconds = uint64_t{1} << 40;
  reply.is_over = true;
  return reply;
}

std::vector<Reply> Replies() {
  return {ReplyOfALoadedServer(),
          {Operation::kHello, Status::kDone, 0, 0, 12, 0, ""},
          {Operation::kCreate, Status::kValuesWanted, 0, 0, 0, 77, "", 0, "async"},
          {Operation::kOpen,
           Status::kRefused,
           0,
           0,
           3,
           77,
           "why not",
           0,
           "",
           true,
           "",
           {},
           false,
           false,
           RefusalKind::kMismatch,
           "what helps"},
          {Operation::kExchange, Status::kWaiting, 0, 0, 3, 0, "worker:1 (step 3)"},
          {Operation::kExchange, Status::kDone, 3, 9, 1234, 0, "", 1233},
          {Operation::kHello, Status::kDone, 0, 0, 0, 0, "", 0, "", false, "", {1, 65'535}},
          {Operation::kOpen, Status::kDone, 0, 0, 3, 77, "", 0, "async", false, "", {}, true},
          SavedReply(),
          {Operation::kRestore, Status::kDone, 2, 9, 501, 0, "", 501},
          {Operation::kLocal, Status::kDone, 0, 0, 0, 0, "", 0, "", false, "an offer"}};
}

template <typename Header>
Header Decoded(std::string_view bytes) {
  Header header;
  Decode(bytes, header);
  return header;
}

TEST(Messages, RequestsComeBackAsTheyWereSent) {
  Request decoded;  // one for all: nothing of one may be left in the next
  for (const Request& request : Requests()) {
    Decode(Encode(request).to_string_view(), decoded);
    if (request.operation <= Operation::kOpen || request.operation == Operation::kGoodbye ||
        request.operation >= Operation::kLocal) {
      decoded.part = {};
    }
    EXPECT_EQ(decoded, request);
  }
}

TEST(Messages, PortsAreLimitedAndNeverZero) {
  Reply hello;
  hello.ports.assign(kMaxServerThreads, 2222);
  ExpectError([&] { (void)Decoded<Reply>(Encode(hello).to_string_view()); }, Phase::kRun,
              "too many ports");
  hello.ports = {2222, 0};
  ExpectError([&] { (void)Decoded<Reply>(Encode(hello).to_string_view()); }, Phase::kRun, "port 0");
}

TEST(Messages, RepliesComeBackAsTheyWereSent) {
  for (const Reply& reply : Replies()) {
    EXPECT_EQ(Decoded<Reply>(Encode(reply).to_string_view()), reply);
  }
}

TEST(Messages, ARequestHasTheBytesOfItsPage) {
  const std::string expected(
      "\x0b\x00"                           // version
      "\x04"                               // exchange
      "\x01\x00\x00\x00"                   // attempt
      "\x08\x07\x06\x05\x04\x03\x02\x01"   // client
      "\x18\x17\x16\x15\x14\x13\x12\x11"   // creation
      "\x03\x00\x00\x00\x00\x00\x00\x00"   // sequence
      "\x02\x00\x00\x00\x00\x00\x00\x00"   // oldest
      "\x07\x00\x00\x00\x00\x00\x00\x00"   // local step
      "\x00\x00\x00\x00"                   // part 0
      "\x01\x00\x00\x00"                   // of 1
      "\x05\x00\x00\x00"                   // block
      "\x01"                               // a push
      "\x01\x00"                           // one range is pushed
      "\x00\x00\x00\x00\x10\x00\x00\x00"   // 16 floats from 0 on
      "\x02\x00"                           // two are wanted
      "\x00\x00\x00\x00\x08\x00\x00\x00"   // 8 floats from 0 on
      "\x0c\x00\x00\x00\x04\x00\x00\x00",  // 4 floats from 12 on
      88);
  EXPECT_EQ(Encode(PushPullOfOneBlock()).to_string(), expected);
}

TEST(Messages, WhatTheyAreAboutIsSeenWithoutDecoding) {
  EXPECT_TRUE(IsAbout(Encode(HelloOfWorkerOne()), Operation::kHello));
  EXPECT_FALSE(IsAbout(Encode(HelloOfWorkerOne()), Operation::kLocal));
  EXPECT_TRUE(IsAbout(Encode(Replies().back()), Operation::kLocal));
  EXPECT_FALSE(IsAbout(zmq::message_t("\x06\x00", 2), Operation::kHello));
}

TEST(Messages, AnotherVersionIsNamed) {
  std::string bytes = Encode(HelloOfWorkerOne()).to_string();
  bytes[0] = 6;
  ExpectError([&] { (void)Decoded<Request>(bytes); }, Phase::kRun,
              "protocol version 6; this program speaks 11");
}

TEST(Messages, EveryTruncatedOrLengthenedHeaderIsRefused) {
  std::vector<std::string> headers;
  for (const Request& request : Requests()) headers.push_back(Encode(request).to_string());
  for (const std::string& header : headers) {
    for (size_t size = 0; size < header.size(); ++size) {
      EXPECT_THROW((void)Decoded<Request>(header.substr(0, size)), Error) << size;
    }
    EXPECT_THROW((void)Decoded<Request>(header + "x"), Error);
  }
  for (const Reply& reply : Replies()) {
    const std::string header = Encode(reply).to_string();
    for (size_t size = 0; size < header.size(); ++size) {
      EXPECT_THROW((void)Decoded<Reply>(header.substr(0, size)), Error) << size;
    }
    EXPECT_THROW((void)Decoded<Reply>(header + "x"), Error);
  }
  EXPECT_THROW((void)Decoded<Request>(std::string(kMaxHeaderBytes + 1, '\2')), Error);
}

TEST(Messages, UnknownOperationsAndStatusesAreRefused) {
  for (const char operation : {'\0', '\x0c', '\xff'}) {
    std::string bytes = Encode(HelloOfWorkerOne()).to_string();
    bytes[2] = operation;
    ExpectError([&] { (void)Decoded<Request>(bytes); }, Phase::kRun, "unknown operation");
  }
  std::string bytes = Encode(Reply{}).to_string();
  bytes[3] = 4;
  ExpectError([&] { (void)Decoded<Reply>(bytes); }, Phase::kRun, "unknown status");
}

TEST(Messages, ARefusalHasTheBytesOfItsPage) {
  Reply reply;
  reply.operation = Operation::kAssign;
  reply.status = Status::kRefused;
  reply.refusal = RefusalKind::kVariablesLost;
  reply.error = "why";
  reply.remedy = "what helps";
  reply.queue = 258;
  reply.held = 3;
  reply.idle_microseconds = 1'000'000;
  reply.is_over = true;
  const std::string expected(
      "\x0b\x00"                          // version
      "\x05"                              // assign
      "\x01"                              // refused
      "\x00\x00\x00\x00"                  // part
      "\x00\x00\x00\x00\x00\x00\x00\x00"  // sequence
      "\x00\x00\x00\x00\x00\x00\x00\x00"  // step
      "\x00\x00\x00\x00\x00\x00\x00\x00"  // local step
      "\x02\x01\x00\x00"                  // queue
      "\x03\x00\x00\x00"                  // held
      "\x40\x42\x0f\x00\x00\x00\x00\x00"  // idle for a second
      "\x01"                              // training is over
      "\x05"                              // variables lost
      "\x03\x00why"
      "\x0a\x00what helps",
      49 + 1 + 5 + 12);
  EXPECT_EQ(Encode(reply).to_string(), expected);
}

TEST(Messages, UnknownKindsOfRefusalAreRefused) {
  Reply reply;
  reply.operation = Operation::kAssign;
  reply.status = Status::kRefused;
  std::string bytes = Encode(reply).to_string();
  for (const char kind : {'\0', '\x0b'}) {
    bytes[49] = kind;
    ExpectError([&] { (void)Decoded<Reply>(bytes); }, Phase::kRun, "unknown kind of refusal");
  }
}

TEST(Messages, UnknownFlagsOfAReplyAreRefused) {
  std::string bytes = Encode(Reply{}).to_string();
  bytes[48] = 2;
  ExpectError([&] { (void)Decoded<Reply>(bytes); }, Phase::kRun, "unknown flags");
}

TEST(Messages, OnlyExchangesHaveNarrowValues) {
  Request request = PushPullOfOneBlock();
  request.part.values = static_cast<WireFloat>(3);
  ExpectError([&] { (void)Decoded<Request>(Encode(request).to_string_view()); }, Phase::kRun,
              "unknown flags");
  for (const Operation operation : {Operation::kAssign, Operation::kRows}) {
    request.operation = operation;
    request.part.values = WireFloat::kFloat16;
    ExpectError([&] { (void)Decoded<Request>(Encode(request).to_string_view()); }, Phase::kRun,
                "unknown flags");
  }
}

TEST(Messages, RowsHaveNoUnknownFlags) {
  Request rows;
  rows.operation = Operation::kRows;
  rows.part.rows = {{3, 1, 2, true}};
  std::string bytes = Encode(rows).to_string();
  bytes[bytes.size() - 10] = 2;  // before two counts
  ExpectError([&] { (void)Decoded<Request>(bytes); }, Phase::kRun, "unknown flags");
  Reply opened;
  opened.operation = Operation::kOpen;
  bytes = Encode(opened).to_string();
  bytes.back() = 8;
  ExpectError([&] { (void)Decoded<Reply>(bytes); }, Phase::kRun, "unknown flags");
}

TEST(Messages, APartIsOneOfItsRequests) {
  for (const auto& [number, of] : {std::pair{0U, 0U}, {1U, 1U}, {0U, kMaxRequestParts + 1}}) {
    Request request = PushPullOfOneBlock();
    request.part.number = number;
    request.part.of = of;
    const std::string bytes = Encode(request).to_string();
    ExpectError([&] { (void)Decoded<Request>(bytes); }, Phase::kRun, "no such part");
  }
}

// What the decoders make of noise does not matter, as long as it is an Error or a message.
void DecodeAnything(std::string_view bytes) {
  try {
    (void)Decoded<Request>(bytes);
  } catch (const Error&) {
  }
  try {
    (void)Decoded<Reply>(bytes);
  } catch (const Error&) {
  }
}

TEST(Messages, NoiseIsRefusedOrReadAndNothingElse) {
  std::mt19937 random(1);
  std::vector<std::string> headers;
  for (const Request& request : Requests()) headers.push_back(Encode(request).to_string());
  for (const Reply& reply : Replies()) headers.push_back(Encode(reply).to_string());
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = headers[random() % headers.size()];
    for (unsigned i = random() % 6; i > 0; --i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    bytes.resize(random() % 4 == 0 ? random() % (2 * bytes.size()) : bytes.size());
    DecodeAnything(bytes);
  }
}

}  // namespace
}  // namespace tfdist::runtime
