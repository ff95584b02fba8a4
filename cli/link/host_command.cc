#include "cli/link/host_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/failures.h"
#include "base/hash.h"
#include "base/process_limits.h"
#include "base/text.h"
#include "cli/channel/tail.h"
#include "cli/link/boot_conversation.h"
#include "cli/link/boot_script.h"

namespace tfdist::cli {
namespace {

// Of the last line: some thousand process ids.
constexpr size_t kLastLineLimitBytes = 64 * 1024;
constexpr std::string_view kIdleRemedy =
    "an sshd may end channels on which nothing comes (ChannelTimeout in its sshd_config): let the "
    "command print something now and then, or start it as a job (tfdist up)";

BootScript ScriptOf(const HostCommand& command) {
  BootScript script(RandomHex(16));
  script.SetWords(command.words, command.expands_home).Set("mark", RandomHex(16));
  script.Set("limit_seconds", std::to_string(command.limit.count()));
  script.Set("remote_dir", command.base).Set("job", command.job);
  script.Set("slot", std::to_string(command.slot)).Set("task", command.task);
  return script;
}

// How many of the last bytes of `text` are the first ones of `mark`.
size_t BeginningOf(std::string_view mark, std::string_view text) {
  for (size_t size = std::min(mark.size(), text.size()); size > 0; --size) {
    if (text.ends_with(mark.substr(0, size))) return size;
  }
  return 0;
}

}  // namespace

HostCommandEnd ParseCommandEnd(std::string_view text) {
  HostCommandEnd end;
  const char* last = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), last, end.status);
  if (error != std::errc() || end.status < 0 || end.status > 255 ||
      (stop != last && *stop != ' ')) {
    throw ProtocolError(Phase::kExec, "the host says that the command ended, and not how");
  }
  std::string_view rest(stop, static_cast<size_t>(last - stop));
  rest.remove_prefix(std::min<size_t>(rest.size(), 1));
  end.left = TakeUpTo('|', rest);
  end.may_be_left = rest;
  return end;
}

RunningCommand::RunningCommand(std::unique_ptr<ByteChannel> channel, const HostCommand& command,
                               TimePoint deadline) {
  const BootScript script = ScriptOf(command);
  BootConversation talk(std::move(channel));
  talk.Begin(script.RunCommand(), script.nonce(), deadline);
  HostFolders folders;
  const std::string line = FollowFolders(talk, deadline, folders);
  if (line == "missing" || line.starts_with("lost ")) {
    ThrowIfOutOfSight(Phase::kExec, line, folders, command.job, command.known);
    throw NothingThere(Phase::kExec, fmt::format("job {} has no folder here", command.job),
                       "was it cleaned, or has it another tfdist folder?");
  }
  if (line != "run") {
    throw ProtocolError(Phase::kExec, fmt::format("an unexpected answer: {}", OnOneLine(line)));
  }
  begin_mark_ = fmt::format("\1{} begin\n", script.nonce());
  mark_ = fmt::format("\1{} exit ", script.nonce());
  channel_ = talk.Release();
}

std::optional<HostCommandEnd> RunningCommand::Read(std::string& out, TimePoint deadline) {
  if (auto end = TakeOutput(out)) return end;
  const auto result = channel_->Read(buffer_, deadline);
  auto end = TakeOutput(out);
  if (!end && result == ByteChannel::ReadResult::kEndOfFile) {
    if (!has_begun_) ThrowAsNotBegun(buffer_);
    const std::string said = OnOneLine(channel_->Stderr());
    const std::string_view limit = LimitRemedy(said);
    throw LostConnection(
        Phase::kExec,
        fmt::format("the host hung up while the command ran{}{}", said.empty() ? "" : ": ", said),
        std::string(limit.empty() ? kIdleRemedy : limit));
  }
  return end;
}

bool RunningCommand::HasBegun() {
  const size_t begin = has_begun_ ? 0 : buffer_.find(begin_mark_);
  if (!has_begun_ && begin != std::string::npos) {
    buffer_.erase(0, begin + begin_mark_.size());
    has_begun_ = true;
  }
  if (has_begun_) return true;
  const size_t end = buffer_.find(mark_);
  if (end != std::string::npos) ThrowAsNotBegun(std::string_view(buffer_).substr(0, end));
  if (buffer_.size() > kLastLineLimitBytes) {
    throw ProtocolError(Phase::kExec, "the host does not come to the command's begin");
  }
  return false;
}

void RunningCommand::ThrowAsNotBegun(std::string_view words) const {
  const std::string said = OnOneLine(fmt::format("{}\n{}", words, channel_->Stderr()));
  throw LostConnection(
      Phase::kExec,
      fmt::format("the host's shell did not start the command{}{}", said.empty() ? "" : ": ", said),
      std::string(LimitRemedy(said)));
}

std::optional<HostCommandEnd> RunningCommand::TakeOutput(std::string& out) {
  if (!HasBegun()) return std::nullopt;
  const size_t mark = buffer_.find(mark_);
  const size_t size =
      mark != std::string::npos ? mark : buffer_.size() - BeginningOf(mark_, buffer_);
  out.append(buffer_, 0, size);
  buffer_.erase(0, size);
  if (mark == std::string::npos) return std::nullopt;
  const size_t line = buffer_.find('\n');
  if (line != std::string::npos) {
    return ParseCommandEnd(std::string_view(buffer_).substr(mark_.size(), line - mark_.size()));
  }
  if (buffer_.size() > kLastLineLimitBytes) {
    throw ProtocolError(Phase::kExec, "the host does not come to an end");
  }
  return std::nullopt;
}

void RunningCommand::Ask(Ending ending, TimePoint deadline) {
  channel_->Write(ending == Ending::kTerm ? "end\n" : "kill\n", deadline);
}

}  // namespace tfdist::cli
