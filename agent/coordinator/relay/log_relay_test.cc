#include "agent/coordinator/relay/log_relay.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tfdist::agent {
namespace {

using protocol::Json;
using protocol::LogPiece;
using protocol::Message;
using protocol::ReadLog;

namespace type = protocol::type;

// The far side, by hand: what the relay sends, and pieces of a log in answer.
class LogRelayTest : public testing::Test {
 protected:
  void Open(const ReadLog& request) {
    stream_ = relay_.Open(1, 42, request, [this](const Message& m) { delivered_.push_back(m); });
  }
  // The newest message of that type that went to the far side.
  Message Sent(std::string_view type) {
    for (auto message = sent_.rbegin(); message != sent_.rend(); ++message) {
      if (message->type == type) return *message;
    }
    ADD_FAILURE() << "no " << type << " was sent";
    return {};
  }
  size_t CountSent(std::string_view type) {
    return static_cast<size_t>(std::count_if(sent_.begin(), sent_.end(),
                                             [&](const Message& m) { return m.type == type; }));
  }
  void Piece(const Json& from, uint64_t offset, const std::string& text) {
    LogPiece piece{.offset = offset, .segments = {}, .data = {text}};
    if (!text.empty()) piece.segments = {{.size_bytes = static_cast<uint32_t>(text.size())}};
    Json body = piece;
    body["from"] = from;
    SendLog(1, body, text);
  }
  void SendLog(int slot, const Json& body, const std::string& text) {
    relay_.OnBulk(slot, {std::string(type::kLog), Sent(type::kReadLog).id, body, text});
  }
  void End(uint64_t offset) {
    relay_.OnBulk(
        1,
        {std::string(type::kEnd), Sent(type::kReadLog).id, {{"offset", offset}, {"from", offset}}});
  }
  std::string Text() const {
    std::string text;
    for (const Message& message : delivered_) {
      EXPECT_EQ(message.id, 42U);
      if (message.type == type::kLog) text += message.payload;
    }
    return text;
  }

  // The reader was told why, and the host was told to stop.
  void ExpectEnd(const std::string& why) {
    ASSERT_FALSE(delivered_.empty());
    EXPECT_EQ(delivered_.back().type, type::kEnd);
    EXPECT_NE(delivered_.back().body.value("why", "").find(why), std::string::npos)
        << delivered_.back().body;
    EXPECT_EQ(Sent(type::kCancel).id, Sent(type::kReadLog).id);
    EXPECT_TRUE(stream_->ended());
  }

  int expected_slot_ = 1;
  std::vector<Message> sent_;
  std::vector<Message> delivered_;
  LogRelay relay_{[this](int slot, const Message& message) {
    EXPECT_EQ(slot, expected_slot_);
    sent_.push_back(message);
    return true;
  }};
  std::unique_ptr<Stream> stream_;
};

ReadLog Request(uint64_t offset) {
  ReadLog request;
  request.task = "worker:0";
  request.offset = offset;
  request.credit = 100;
  return request;
}

TEST_F(LogRelayTest, HandsPiecesOnUnderTheReadersId) {
  Open(Request(5));
  Piece(5, 5, "abc");
  Piece(8, 8, "def");
  End(11);
  EXPECT_EQ(Text(), "abcdef");
  EXPECT_TRUE(stream_->ended());
}

TEST_F(LogRelayTest, PassesCreditOn) {
  Open(Request(0));
  stream_->Credit(50);
  EXPECT_EQ(Sent(type::kCredit).body.at("bytes"), 50);
}

TEST_F(LogRelayTest, AsksOnANewConnectionForWhatIsMissing) {
  Open(Request(0));
  Piece(0, 0, "abc");
  relay_.OnConnected(1);
  const auto again = Sent(type::kReadLog).body.get<ReadLog>();
  EXPECT_EQ(again.offset, 3U);
  EXPECT_EQ(again.credit, 97U);
}

TEST_F(LogRelayTest, NeitherLosesNorDoublesWhenAPieceIsLost) {
  Open(Request(0));
  Piece(0, 0, "abc");
  Piece(6, 6, "ghi");  // "def" went down with a connection
  Piece(9, 9, "jkl");
  EXPECT_EQ(CountSent(type::kReadLog), 2U) << "asked again once";
  EXPECT_EQ(Sent(type::kReadLog).body.get<ReadLog>().offset, 3U);
  Piece(3, 3, "def");
  EXPECT_EQ(Text(), "abcdef");
}

TEST_F(LogRelayTest, LetsRotatedTextBeSkipped) {
  Open(Request(0));
  Piece(0, 1000, "abc");
  Piece(1003, 1003, "def");
  EXPECT_EQ(Text(), "abcdef");
}

TEST_F(LogRelayTest, TakesOnlyTheFirstPieceOfTheLastLinesAsTheirBegin) {
  ReadLog request = Request(0);
  request.tail_lines = 2;
  Open(request);
  Piece(30, 30, "stale");
  Piece(Json(), 20, "tail");
  EXPECT_EQ(Text(), "tail");
}

TEST_F(LogRelayTest, SaysWhyWhenTheHostIsLost) {
  Open(Request(0));
  Piece(0, 0, "abc");
  relay_.OnLost(1, "host b is lost");
  EXPECT_EQ(delivered_.back().type, type::kEnd);
  EXPECT_EQ(delivered_.back().body.at("offset"), 3);
  EXPECT_EQ(delivered_.back().body.at("why"), "host b is lost");
  EXPECT_TRUE(stream_->ended());
}

TEST_F(LogRelayTest, EndsAStreamWhoseHostSendsMoreThanItsCredit) {
  Open(Request(0));
  Piece(0, 0, std::string(60, 'a'));
  Piece(60, 60, std::string(41, 'b'));
  ExpectEnd("more text than was asked for");
  EXPECT_EQ(Text(), std::string(60, 'a'));
  for (uint64_t offset = 60; offset < 1000; ++offset) Piece(offset, offset, "c");
  EXPECT_EQ(delivered_.size(), 2U) << "nothing more reaches the reader";
}

TEST_F(LogRelayTest, TakesAllThatTheReaderGaveCreditFor) {
  Open(Request(0));
  Piece(0, 0, std::string(100, 'a'));
  stream_->Credit(50);
  Piece(100, 100, std::string(50, 'b'));
  EXPECT_FALSE(stream_->ended());
  Piece(150, 150, "c");
  ExpectEnd("more text than was asked for");
}

TEST_F(LogRelayTest, EndsAStreamWhosePiecesHoldWhatCostsNoCredit) {
  Open(Request(0));
  Piece(0, 0, "");
  ExpectEnd("malformed");
  Open(Request(0));
  Json body = LogPiece{};
  body["from"] = 0;
  body["ballast"] = std::string(1000, 'x');
  SendLog(1, body, "abc");
  ExpectEnd("malformed");
  Open(Request(0));
  body.erase("ballast");
  body["segments"] = Json(std::vector<protocol::LogSegment>(4));
  SendLog(1, body, "abc");
  ExpectEnd("malformed");
  Open(Request(0));
  body["segments"] = {"a long text"};
  SendLog(1, body, "abc");
  ExpectEnd("malformed");
  Open(Request(0));
  body["segments"] = Json::array();
  body["left_out"] = std::string(1000, 'x');
  SendLog(1, body, "abc");
  ExpectEnd("malformed");
}

TEST_F(LogRelayTest, HandsAPieceOnBeforeWhichTextIsLeftOut) {
  Open(Request(0));
  const Json body = {{"from", 0}, {"offset", 7}, {"segments", Json::array()}, {"left_out", true}};
  SendLog(1, body, "abc");
  EXPECT_EQ(Text(), "abc");
  EXPECT_FALSE(stream_->ended());
}

TEST_F(LogRelayTest, EndsWithoutThePayloadThatItsHostPutsThere) {
  Open(Request(5));
  relay_.OnBulk(1, {std::string(type::kEnd),
                    Sent(type::kReadLog).id,
                    {{"offset", 5}, {"from", 5}},
                    std::string(1000, 'x')});
  EXPECT_TRUE(stream_->ended());
  EXPECT_EQ(delivered_.back().payload, "");
}

TEST_F(LogRelayTest, EndsAStreamWhoseHostSendsWhatIsNoLog) {
  Open(Request(0));
  relay_.OnBulk(1, {std::string(type::kEvent), Sent(type::kReadLog).id});
  ExpectEnd("belongs to no log");
  Open(Request(0));
  relay_.OnBulk(1, {std::string(type::kLog), Sent(type::kReadLog).id, Json::array()});
  ExpectEnd("malformed");
}

TEST_F(LogRelayTest, TakesNothingFromASlotThatWasNotAsked) {
  Open(Request(0));
  Json body = LogPiece{};
  body["from"] = 0;
  expected_slot_ = 2;
  SendLog(2, body, "abc");
  EXPECT_EQ(Sent(type::kCancel).id, Sent(type::kReadLog).id);
  EXPECT_TRUE(delivered_.empty());
  expected_slot_ = 1;
}

TEST_F(LogRelayTest, CancelsWhatNobodyReads) {
  Open(Request(0));
  stream_.reset();
  EXPECT_EQ(CountSent(type::kCancel), 1U);
  relay_.OnBulk(1, {std::string(type::kLog), 7, Json(LogPiece{})});
  EXPECT_EQ(Sent(type::kCancel).id, 7U);
}

}  // namespace
}  // namespace tfdist::agent
