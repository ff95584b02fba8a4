#include "cli/deploy/file_upload.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/failures.h"
#include "base/file.h"
#include "base/testing/soon.h"
#include "base/unique_fd.h"
#include "cli/testing/socket_channel.h"
#include "wire/refusal.h"

namespace tfdist::cli {
namespace {

using protocol::Message;
namespace type = protocol::type;

PackedFile Pack(const std::string& content) {
  const UniqueFd fd = TemporaryFile();
  WriteAll(fd.get(), content, "a temporary file");
  return {{fd.get()}, 0, false, ""};
}

class FileUploadTest : public testing::Test {
 protected:
  FileUploadTest() {
    std::array<int, 2> fds{};
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data());
    agent_.Reset(fds[0]);
    link_ = std::make_unique<AgentLink>(std::make_unique<SocketChannel>(UniqueFd(fds[1])));
    upload_ = std::make_unique<FileUpload>(
        *link_, [] {}, [this](uint64_t content_bytes, uint64_t) { sent_bytes_ += content_bytes; });
  }
  ~FileUploadTest() override {
    link_.reset();  // the agent's thread finds the end of its input
    if (thread_.joinable()) thread_.join();
  }

  // Runs the agent's part: each message that comes is given to `on_message`, until the fixture ends: what
  // that needs is its own, not the test's.
  void RunAgent(std::function<void(const Message&)> on_message) {
    thread_ = std::thread([this, on_message = std::move(on_message)] {
      protocol::FrameReader reader;
      std::array<char, 65536> buffer;
      while (true) {
        const ssize_t got = read(agent_.get(), buffer.data(), buffer.size());
        if (got <= 0) return;
        reader.Feed({buffer.data(), static_cast<size_t>(got)});
        while (const auto message = reader.Next()) on_message(*message);
      }
    });
  }
  void Answer(const Message& message) const {
    WriteAll(agent_.get(), protocol::Frame(message), "the command");
  }

  UniqueFd agent_;
  std::unique_ptr<AgentLink> link_;
  std::unique_ptr<FileUpload> upload_;
  uint64_t sent_bytes_ = 0;
  std::atomic<int> answered_ = 0;
  std::thread thread_;
};

// With a wait for each answer the first file would never end here.
TEST_F(FileUploadTest, NoFileWaitsForTheAnswerToTheOneBefore) {
  RunAgent([this, ids = std::vector<uint64_t>()](const Message& message) mutable {
    if (message.body.at("last").get<bool>()) ids.push_back(message.id);
    if (ids.size() < 3) return;
    for (const uint64_t id : ids) Answer({std::string(type::kOk), id});
  });
  for (const char* content : {"one", "two", "three"}) upload_->Send(Pack(content));
  upload_->Finish(Soon());
  EXPECT_EQ(sent_bytes_, 11U);
}

TEST_F(FileUploadTest, AnAnswerThatComesWhileTheNextFileIsPreparedCounts) {
  RunAgent([this](const Message& message) {
    Answer({std::string(type::kOk), message.id});
    ++answered_;
  });
  upload_->Send(Pack("one"));
  while (answered_ < 1) upload_->Poll();
  upload_->Poll();
  upload_->Send(Pack("two"));
  upload_->Finish(Soon());
}

TEST_F(FileUploadTest, ARefusalInTheMiddleOfAFileEndsTheUpload) {
  RunAgent([this, refused = false](const Message& message) mutable {
    if (std::exchange(refused, true)) return;
    Answer(protocol::ErrorMessage(message.id, Error(Phase::kFiles, "the disk is full")));
  });
  const PackedFile large = Pack(std::string(40 << 20, 'x'));
  try {
    upload_->Send(large);
    upload_->Finish(Soon());
    FAIL();
  } catch (const protocol::Refusal& refusal) {
    EXPECT_EQ(refusal.cause(), "the disk is full");
  }
  EXPECT_LT(sent_bytes_, large.description().size_bytes);
}

TEST_F(FileUploadTest, AHostThatConfirmsNothingHasADeadline) {
  RunAgent([](const Message&) {});
  upload_->Send(Pack("one"));
  EXPECT_THROW(upload_->Finish(SystemClock().Now() + std::chrono::milliseconds(50)),
               LostConnection);
}

}  // namespace
}  // namespace tfdist::cli
