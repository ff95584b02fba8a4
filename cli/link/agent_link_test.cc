#include "cli/link/agent_link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/failures.h"
#include "base/testing/soon.h"
#include "base/unique_fd.h"
#include "cli/testing/socket_channel.h"
#include "wire/refusal.h"

namespace tfdist::cli {
namespace {

using protocol::Message;

class AgentLinkTest : public testing::Test {
 protected:
  AgentLinkTest() {
    std::array<int, 2> fds{};
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data());
    agent_.Reset(fds[0]);
    link_ = std::make_unique<AgentLink>(std::make_unique<SocketChannel>(UniqueFd(fds[1])));
  }

  // What the agent says.
  void Say(std::string_view type, uint64_t id, protocol::Json body) const {
    const std::string frames = protocol::Frame({std::string(type), id, std::move(body)});
    ASSERT_EQ(write(agent_.get(), frames.data(), frames.size()),
              static_cast<ssize_t>(frames.size()));
  }
  void SayHello(int oldest = protocol::kOldestVersion) const {
    protocol::Hello hello;
    hello.oldest = oldest;
    hello.newest = oldest;
    hello.serving = protocol::Serving::kAgent;
    Say(protocol::type::kHello, 0, hello);
  }

  UniqueFd agent_;
  std::unique_ptr<AgentLink> link_;
};

// What start-up files leave running may print into the connection.
TEST_F(AgentLinkTest, TextOfOtherProgramsIsPassedOverUnlessItNeverEnds) {
  const std::string note = "note\n";
  ASSERT_EQ(write(agent_.get(), note.data(), note.size()), static_cast<ssize_t>(note.size()));
  SayHello();
  EXPECT_EQ(link_->ReadHello(Soon()).serving, protocol::Serving::kAgent);
  std::thread chatter([this] {
    const std::string lines(2 * 1024 * 1024, 'y');
    size_t sent = 0;
    while (sent < lines.size()) {
      const ssize_t put =
          send(agent_.get(), lines.data() + sent, lines.size() - sent, MSG_NOSIGNAL);
      if (put < 0) return;
      sent += static_cast<size_t>(put);
    }
  });
  try {
    (void)link_->Call("need", protocol::Json::object(), Soon());
    ADD_FAILURE() << "took it for an answer";
  } catch (const ProtocolError& error) {
    EXPECT_NE(error.cause().find("print without end; it printed: yyy"), std::string::npos)
        << error.cause();
    EXPECT_NE(error.remedy().find("a start-up file (.bashrc) leaves running"), std::string::npos);
  }
  link_.reset();
  chatter.join();
}

TEST_F(AgentLinkTest, AnswersComeToTheirCallAndTheRestToTheHandler) {
  SayHello();
  EXPECT_EQ(link_->ReadHello(Soon()).serving, protocol::Serving::kAgent);
  std::vector<std::string> others;
  link_->OnMessage([&](const Message& message) { others.push_back(message.type); });
  Say("event", 77, protocol::Json::object());
  Say("ok", 0, protocol::Json::object());  // an answer to a ping
  Say("ok", 1, {{"missing", {"x"}}});
  EXPECT_EQ(link_->Call("need", protocol::Json::object(), Soon()).at("missing").size(), 1U);
  EXPECT_EQ(others, std::vector<std::string>{"event"});
}

TEST_F(AgentLinkTest, ThrowsTheRefusalThatTheAgentAnswersWith) {
  SayHello();
  (void)link_->ReadHello(Soon());
  const Message said =
      protocol::ErrorMessage(1, protocol::Refusal(protocol::RefusalKind::kPortTaken, Phase::kPorts,
                                                  "port 2222 is taken", "free it"));
  Say(said.type, said.id, said.body);
  try {
    (void)link_->Call("describe", protocol::Json::object(), Soon());
    FAIL();
  } catch (const protocol::Refusal& refusal) {
    EXPECT_EQ(refusal.kind(), protocol::RefusalKind::kPortTaken);
    EXPECT_EQ(refusal.remedy(), "free it");
  }
}

TEST_F(AgentLinkTest, NamesTheRequestThatGotNoAnswer) {
  SayHello();
  (void)link_->ReadHello(Soon());
  try {
    (void)link_->Call("peers", protocol::Json::object(), SystemClock().Now());
    FAIL();
  } catch (const LostConnection& error) {
    EXPECT_EQ(error.cause(), "no answer to 'peers' in time");
  }
}

TEST(AgentLinkSilence, IsNamedAfterFiveSeconds) {
  std::array<int, 2> fds{};
  socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data());
  const UniqueFd agent(fds[0]);
  std::vector<std::string> notes;
  auto channel = std::make_unique<SocketChannel>(UniqueFd(fds[1]));
  channel->SetOnNote([&](const std::string& note) { notes.push_back(note); });
  AgentLink link(std::move(channel));
  EXPECT_THROW((void)link.ReadHello(SystemClock().Now() + std::chrono::seconds(7)), LostConnection);
  EXPECT_EQ(notes, std::vector<std::string>{"logged in; waits for its agent, up to 2 s more"});
}

// As after a stop of this process that was longer than the deadline.
TEST_F(AgentLinkTest, WhatLiesThereIsReadAfterTheDeadlineToo) {
  SayHello();
  (void)link_->ReadHello(Soon());
  Say("event", 99, protocol::Json::object());
  Say("ok", 1, {{"here", true}});
  const TimePoint past = SystemClock().Now() - std::chrono::seconds(60);
  EXPECT_TRUE(link_->Call("peers", protocol::Json::object(), past).contains("here"));
}

// A deadline that counts only while nothing comes would never be over.
TEST_F(AgentLinkTest, GivesUpInTimeAnAgentThatNeverStopsTalking) {
  SayHello();
  (void)link_->ReadHello(Soon());
  const std::string event = protocol::Frame({"event", 99, protocol::Json::object()});
  std::string never_the_last_piece = event;
  never_the_last_piece[4] = 0;
  for (const std::string& said : {event, never_the_last_piece}) {
    std::atomic<bool> stop = false;
    std::thread agent([&] {
      while (!stop) {
        (void)!send(agent_.get(), said.data(), said.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      }
    });
    const TimePoint begin = SystemClock().Now();
    EXPECT_THROW((void)link_->Call("peers", protocol::Json::object(),
                                   begin + std::chrono::milliseconds(300)),
                 Error);
    EXPECT_LT(SystemClock().Now() - begin, std::chrono::seconds(10));
    stop = true;
    agent.join();
  }
}

TEST_F(AgentLinkTest, WhatACheckThrowsEndsTheWaitAndTheLateAnswerIsDropped) {
  SayHello();
  (void)link_->ReadHello(Soon());
  int checks = 0;
  const auto interrupt = [&] {
    if (++checks == 3) throw Error(Phase::kStart, "interrupted");
  };
  try {
    (void)link_->Call("dial", protocol::Json::object(), Soon(), interrupt);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), "interrupted");
  }
  Say("ok", 1, {{"late", true}});
  Say("ok", 2, protocol::Json::object());
  EXPECT_TRUE(link_->Call("abort", protocol::Json::object(), Soon(), [] {}).empty());
}

TEST_F(AgentLinkTest, AnAgentThatEndsLeavesItsLastWordsInTheError) {
  agent_.Reset();
  try {
    (void)link_->ReadHello(Soon());
    FAIL();
  } catch (const LostConnection& error) {
    EXPECT_EQ(error.phase(), Phase::kStart);
    EXPECT_EQ(error.cause(), "the agent hung up: last words");
  }
}

TEST_F(AgentLinkTest, VersionsThatDoNotMeetAreNamed) {
  SayHello(protocol::kVersion + 1);
  try {
    (void)link_->ReadHello(Soon());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.phase(), Phase::kStart);
    EXPECT_EQ(error.cause(), "the agent speaks protocol 3 to 3, this tfdist 2 to 2");
  }
}

// Its frames had another form, and no JSON in them.
TEST_F(AgentLinkTest, AnAgentOfVersion1IsNamed) {
  constexpr std::string_view kFrame(
      "\0\0\0\x10\1\xa3"
      "ab\xa0"
      "bid\0"
      "atehello",
      21);
  ASSERT_EQ(write(agent_.get(), kFrame.data(), kFrame.size()), ssize_t{kFrame.size()});
  try {
    (void)link_->ReadHello(Soon());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.phase(), Phase::kStart);
    EXPECT_EQ(error.cause(), "the agent speaks protocol 1 to 1, this tfdist 2 to 2");
    EXPECT_EQ(error.remedy(), "use the tfdist that started this job");
  }
}

TEST_F(AgentLinkTest, CreateTakesTheHelloOfTheAgentThatItMade) {
  SayHello();
  (void)link_->ReadHello(Soon());
  SayHello();
  EXPECT_EQ(link_->Create({}, Soon()).serving, protocol::Serving::kAgent);
}

}  // namespace
}  // namespace tfdist::cli
