#include "runtime/transport/messages.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "runtime/testing/expect_error.h"
#include "runtime/transport/bytes.h"

namespace tfdist::runtime {
namespace {

using testing::ExpectError;

const std::vector<TensorSpec> kVariables = {{"w", {2, 3}}, {"b", {3}}, {"scale", {}}};

Request ExampleRequest() {
  return {Operation::kPushPull, 2, 0x1122334455667788, 9, "worker:1", 0.5F, kVariables};
}

Tensors ExampleValues() { return {{1, 2, 3, 4, 5, 6}, {7, 8, 9}, {10}}; }

Frames OneFrame(std::string_view bytes) {
  Frames frames;
  frames.emplace_back(bytes);
  return frames;
}

// As in MESSAGES.md.
Request PullOfWorkerZero() {
  return {Operation::kPull, 1, 0x0102030405060708, 3, "worker:0", 0, {}};
}

TEST(Messages, RequestComesBackAsItWasSent) {
  const Frames frames = Encode(ExampleRequest(), ViewsOf(ExampleValues()));
  EXPECT_EQ(DecodeRequest(frames), ExampleRequest());
  EXPECT_EQ(ReadValues(frames, kVariables), ExampleValues());
}

TEST(Messages, ReplyComesBackAsItWasSent) {
  const Reply reply{Status::kRefused, 9, 1234, "why not", kVariables};
  const Frames frames = Encode(reply, ViewsOf(ExampleValues()));
  EXPECT_EQ(DecodeReply(frames), reply);
  EXPECT_EQ(ReadValues(frames, kVariables), ExampleValues());
}

TEST(Messages, RequestHasTheBytesOfItsPage) {
  const std::string expected(
      "\x01\x00"                          // version
      "\x02"                              // pull
      "\x01\x00\x00\x00"                  // attempt
      "\x08\x07\x06\x05\x04\x03\x02\x01"  // run
      "\x03\x00\x00\x00\x00\x00\x00\x00"  // sequence
      "\x08\x00"
      "worker:0"
      "\x00\x00\x00\x00"  // learning rate
      "\x00\x00",         // no variables
      39);
  const Frames frames = Encode(PullOfWorkerZero(), {});
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(frames[0].to_string(), expected);
}

TEST(Messages, LargeVariablesTravelInChunks) {
  const size_t elements = kMaxChunkBytes / sizeof(float) + 100;
  const std::vector<TensorSpec> specs = {{"a", {static_cast<uint32_t>(elements)}}, {"b", {3}}};
  Tensors values = Zeros(specs);
  std::iota(values[0].begin(), values[0].end(), 0.0F);
  values[1] = {1, 2, 3};
  const Frames frames = Encode(Request{}, ViewsOf(values));
  ASSERT_EQ(frames.size(), 3U);
  EXPECT_EQ(frames[1].size(), kMaxChunkBytes);
  EXPECT_EQ(frames[2].size(), 103 * sizeof(float));
  EXPECT_EQ(ReadValues(frames, specs), values);
}

TEST(Messages, AnotherVersionIsNamed) {
  Frames frames = Encode(PullOfWorkerZero(), {});
  frames[0].data<char>()[0] = 7;
  ExpectError([&] { (void)DecodeRequest(frames); }, Phase::kRun,
              "protocol version 7; this program speaks 1");
}

TEST(Messages, EveryTruncatedHeaderIsRefused) {
  const std::string header = Encode(ExampleRequest(), {}).front().to_string();
  for (size_t size = 0; size < header.size(); ++size) {
    EXPECT_THROW((void)DecodeRequest(OneFrame(header.substr(0, size))), Error) << size;
  }
  EXPECT_THROW((void)DecodeRequest(OneFrame(header + "x")), Error);
  EXPECT_THROW((void)DecodeRequest({}), Error);
  EXPECT_THROW((void)DecodeRequest(OneFrame(std::string(kMaxHeaderBytes + 1, '\1'))), Error);
}

TEST(Messages, UnknownOperationAndStatusAreRefused) {
  for (const char operation : {'\0', '\4', '\xff'}) {
    Frames frames = Encode(PullOfWorkerZero(), {});
    frames[0].data<char>()[2] = operation;
    ExpectError([&] { (void)DecodeRequest(frames); }, Phase::kRun, "unknown operation");
  }
  Frames frames = Encode(Reply{}, {});
  frames[0].data<char>()[2] = 2;
  ExpectError([&] { (void)DecodeReply(frames); }, Phase::kRun, "unknown status");
}

TEST(Messages, ValuesMustBeOfTheSizeThatTheHeaderPromises) {
  const Frames frames = Encode(ExampleRequest(), ViewsOf(ExampleValues()));
  ExpectError(
      [&] {
        (void)ReadValues(frames, {{"w", {2, 3}}});
      },
      Phase::kRun, "40 bytes of values where 24 belong");
  // Nothing of that size is allocated: the bytes that came say otherwise.
  ExpectError([&] { (void)ReadValues(frames, {{"w", {1 << 28}}}); }, Phase::kRun, "40 bytes");
  ExpectError(
      [&] {
        (void)ReadValues(frames, {{"w", {0xffffffff, 0xffffffff}}});
      },
      Phase::kRun, "too large");
  ExpectError(
      [&] {
        (void)ReadValues(frames, {{"w", {1 << 20, 1 << 20, 1 << 20, 1 << 4}}});
      },
      Phase::kRun, "too large");
}

TEST(Messages, ChunksOfAnyLengthAreReadAsOneRun) {
  const std::string bytes = Encode(Request{}, ViewsOf({{1, 2, 3}}))[1].to_string();
  Frames frames = OneFrame("header");
  for (const auto& [begin, count] : {std::pair{0, 5}, {5, 0}, {5, 1}, {6, 6}}) {
    frames.emplace_back(std::string_view(bytes).substr(begin, count));
  }
  EXPECT_EQ(ReadValues(frames, {{"w", {3}}}), (Tensors{{1, 2, 3}}));
}

// What the decoders make of noise does not matter, as long as it is an Error or a message.
void DecodeAnything(const std::string& bytes) {
  const Frames frames = OneFrame(bytes);
  try {
    (void)ReadValues(frames, DecodeRequest(frames).variables);
  } catch (const Error&) {
  }
  try {
    (void)ReadValues(frames, DecodeReply(frames).variables);
  } catch (const Error&) {
  }
}

TEST(Messages, NoiseIsRefusedOrReadAndNothingElse) {
  std::mt19937 random(1);
  const std::string request = Encode(ExampleRequest(), {}).front().to_string();
  const std::string reply = Encode(Reply{{}, 1, 2, "e", kVariables}, {}).front().to_string();
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = round % 2 == 0 ? request : reply;
    for (unsigned i = random() % 6; i > 0; --i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    bytes.resize(random() % 4 == 0 ? random() % (2 * bytes.size()) : bytes.size());
    DecodeAnything(bytes);
  }
}

}  // namespace
}  // namespace tfdist::runtime
