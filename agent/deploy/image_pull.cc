#include "agent/deploy/image_pull.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <utility>

#include "agent/container/containers.h"
#include "base/error.h"
#include "base/spawn.h"
#include "wire/data.h"

namespace tfdist::agent {
namespace {

constexpr std::chrono::seconds kLookLimit{20};
constexpr size_t kMostWords = 4096;

std::string EndOf(int fd) {
  std::array<char, kMostWords> buffer{};
  const off_t size = lseek(fd, 0, SEEK_END);
  const off_t begin = std::max<off_t>(size - static_cast<off_t>(kMostWords), 0);
  const ssize_t got = pread(fd, buffer.data(), buffer.size(), begin);
  return {buffer.data(), static_cast<size_t>(std::max<ssize_t>(got, 0))};
}

std::string RemedyForPull(std::string_view words, protocol::EngineKind engine,
                          const std::string& image) {
  if (auto remedy = RemedyForImage(engine, words); !remedy.empty()) return remedy;
  const std::string_view program = ProgramOf(engine);
  for (const std::string_view sign :
       {"unauthorized", "denied", "authentication", "no basic auth"}) {
    if (words.find(sign) == words.npos) continue;
    return fmt::format("is its name right? `{} login` there, as this account, where it needs one",
                       program);
  }
  return fmt::format(
      "does `{} pull {}` work there? image = {{ local = \"{}\" }} sends an image of your machine",
      program, image, image);
}

}  // namespace

ImagePull::~ImagePull() { End(); }

std::deque<ImagePull::Missing> ImagePull::FindMissing(
    const std::vector<protocol::ContainerDescription>& containers) {
  std::deque<Missing> missing;
  const TimePoint deadline = SystemClock().Now() + kLookLimit;
  for (const auto& container : containers) {
    const Engine engine = FindEngine(container.engine, deadline);
    if (LookAtImage(engine.kind, container.image, deadline)) continue;
    if (container.image.starts_with(protocol::kSentImages)) {
      throw Error(Phase::kCommand, fmt::format("image {} is not there any more", container.image),
                  "start again: it is sent anew");
    }
    missing.push_back({engine.kind, container.image, FolderOfImages(engine.kind, deadline)});
  }
  return missing;
}

void ImagePull::Begin(const std::vector<protocol::ContainerDescription>& containers) {
  End();
  state_ = {};
  current_ = std::make_shared<bool>(true);
  files_.Post([containers] { return FindMissing(containers); },
              [this, current = std::weak_ptr(current_)](Outcome<std::deque<Missing>>& outcome) {
                if (current.expired()) return;
                try {
                  missing_ = std::move(outcome.Get());
                  BeginNext();
                } catch (const Error& error) {
                  Fail(error.cause(), error.remedy());
                }
              });
}

protocol::PullState ImagePull::Look() {
  int status = 0;
  if (pid_ > 0 && waitpid(pid_, &status, WNOHANG) == pid_) OnEnd(status);
  if (pid_ > 0) {
    const uint64_t free_now = FreeIn(missing_.front().folder);
    state_.bytes = free_before_ - std::min(free_before_, free_now);
  }
  return state_;
}

void ImagePull::BeginNext() {
  state_.done = missing_.empty();
  state_.image = missing_.empty() ? "" : missing_.front().image;
  if (missing_.empty()) return;
  free_before_ = FreeIn(missing_.front().folder);
  words_ = UniqueFd(memfd_create("pull", MFD_CLOEXEC));
  if (!words_.valid()) throw Error(Phase::kCommand, WithErrno("memfd_create", errno));
  const SpawnStreams streams{.in = -1, .out = words_.get(), .err = words_.get()};
  pid_ = SpawnProgram(EngineCommand(missing_.front().engine, {"pull", state_.image}), streams,
                      SpawnPlace::kOwnSession, Phase::kCommand);
}

void ImagePull::OnEnd(int status) {
  pid_ = 0;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    missing_.pop_front();
    return BeginNext();
  }
  ProgramResult result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.error_output = EndOf(words_.get());
  const protocol::EngineKind engine = missing_.front().engine;
  const std::string words = WordsOf(result);
  Fail(fmt::format("{} cannot pull image {}: {}", ProgramOf(engine), state_.image, words),
       RemedyForPull(words, engine, state_.image));
}

void ImagePull::Fail(std::string why, std::string remedy) {
  state_.done = true;
  state_.why = std::move(why);
  state_.remedy = std::move(remedy);
}

void ImagePull::End() {
  if (pid_ <= 0) return;
  kill(-pid_, SIGKILL);
  (void)waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

}  // namespace tfdist::agent
