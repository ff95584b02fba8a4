// What the command and an agent say to each other. protocol.md shows the exchanges. A message is a JSON header,
// {"t": type, "id": number, "b": body}, and a payload of raw bytes; `id` ties replies and streams to
// their request. Structs below are the bodies. Unknown body keys are passed over; missing ones are an
// Error.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/failures.h"
#include "job/bytes.h"
#include "job/events.h"
#include "job/plan.h"
#include "job/task.h"
#include "wire/refusal.h"

namespace tfdist::protocol {

// Versions of this protocol that this program speaks, newest and oldest.
inline constexpr int kVersion = 2;
inline constexpr int kOldestVersion = 2;

// ---------------------------------------------------------------------------------------------
// Messages

// Pings have this id, and so has what an agent says unasked: an error of RefusalKind::kEnded.
inline constexpr uint64_t kNoRequest = 0;

struct Message {
  std::string type;
  uint64_t id = 0;
  Json body = Json::object();
  std::string payload =
      {};  // of the few messages that carry bytes: the member `data` of their body
};

namespace type {
// Either way, in answer to `id`
inline constexpr std::string_view kOk = "ok";        // body depends on the request
inline constexpr std::string_view kError = "error";  // ErrorBody
// Agent -> CLI, first
inline constexpr std::string_view kHello = "hello";  // Hello
// CLI -> `start` role
inline constexpr std::string_view kCreate =
    "create";  // Create -> (the agent's own hello follows), or error
// `start` role -> CLI, between the two hellos
inline constexpr std::string_view kRemoved =
    "removed";  // {folders: [path]}: of finished jobs, which retention has removed; not sent where
                // there are none
// CLI -> agent, while deploying
inline constexpr std::string_view kKept =
    "kept";  // KeptClaim -> KeptFound: before any file is sent, and nothing is noted yet
inline constexpr std::string_view kNeed =
    "need";  // {files: [FileDescription]} -> {missing: [sha256]}
inline constexpr std::string_view kFile = "file";  // FilePiece; `ok` answers the last piece
inline constexpr std::string_view kDescribe =
    "describe";  // HostDescription -> {troubles, waits} when it is all ready, but for a port that `waits` tells of
inline constexpr std::string_view kPorts =
    "ports";  // {} -> {waits}: why a port is not free yet, empty when all are
inline constexpr std::string_view kPeers =
    "peers";  // {keys: [public key of slot i]} -> {port, key}; slot 0 only
inline constexpr std::string_view kDial =
    "dial";  // {address, port, key} -> {} once the coordinator has answered
inline constexpr std::string_view kCommit =
    "commit";  // JobPlan -> {} once it is on disk; slot 0 only
inline constexpr std::string_view kAbort =
    "abort";  // {} -> {}: not committed: remove everything, end
// CLI -> agent, at any time
inline constexpr std::string_view kPing = "ping";  // {} -> {}
inline constexpr std::string_view kEvents =
    "events";  // {from: number, follow} -> `event`..., `end`
inline constexpr std::string_view kReadLog = "read_log";  // ReadLog -> `log`..., `end` {offset}
inline constexpr std::string_view kCredit = "credit";  // {bytes}: `id` is the stream's; no answer
inline constexpr std::string_view kCancel = "cancel";  // {}: `id` is the stream's; no answer
inline constexpr std::string_view kStop =
    "stop";  // {why, force} -> {} once it is on disk; slot 0 only
inline constexpr std::string_view kRestart =
    "restart";  // {tasks: [name], all} -> {runs: [OrderedRun]}, once it is on disk; slot 0 only
inline constexpr std::string_view kSweep =
    "sweep";  // {force} -> Census: ends all of this job on this host, then the agent
inline constexpr std::string_view kResume =
    "resume";  // {} -> a second hello: of the agent that was stopped, or of its folder where it stays silent
inline constexpr std::string_view kStartAgain =
    "start_again";  // {} -> {why}: starts the agent that was killed with all of the slot, or orphaned; `why`: how it had ended.
                    // Answered from the slot's folder
// Agent -> CLI, streams
inline constexpr std::string_view kEvent = "event";  // {events: [Event]}
inline constexpr std::string_view kLog = "log";      // LogPiece
inline constexpr std::string_view kEnd = "end";      // {offset}: nothing will follow
}  // namespace type

struct ErrorBody {
  std::string phase;
  std::string cause;
  std::string remedy;
  std::string job;          // kStart, "name taken": the id of the job that runs under that name
  std::string plan_sha256;  // and its plan
};

// Who answers.
enum class Serving {
  kStart,   // the role `start`: no job yet
  kAgent,   // the job's agent
  kFolder,  // `attach` itself, from the job's folder: no agent runs, or it does not answer
};

struct Hello {
  int oldest = kOldestVersion;
  int newest = kVersion;
  Serving serving = Serving::kStart;
  std::string agent_sha256;
  std::string base;  // absolute path of tfdist's folder on the host
  std::string job;   // empty while `start`
  int slot = -1;
  std::string public_key;  // CURVE, Z85; of this agent
  std::string machine;     // equal where slots share ports; empty: not known
  // Which files of the slot's folder are damaged, and why; nothing depends on them any more.
  std::optional<std::string> damage;
  // Why this slot's agent ended the tasks by itself: its coordinator was not heard any more.
  std::optional<std::string> orphaned;
  // Why no agent runs here, though the one that did had not been told to end.
  std::optional<std::string> killed;
  // What an agent does that runs here and does not answer: "is stopped (state T): ...".
  std::optional<std::string> silent;
};

struct Create {
  int version = kVersion;
  std::string job;
  std::string name;
  std::string plan_sha256;
  std::string started_by;  // "alice@laptop", for people: at most kMostWhoBytes, no blank
  int slot = 0;
  std::string address;  // slot 0: where the coordinator listens
  int port = 0;         // slot 0: 0 = any free one
  int64_t uncommitted_limit_ms = 60'000;
  int64_t orphan_timeout_ms =
      300'000;  // an agent that hears nothing from the coordinator for so long ends
};

struct FilePiece {
  std::string sha256;
  uint64_t offset = 0;
  std::string data;  // the payload: a piece of the gzip-compressed content, at most 32 KiB
  bool last = false;
};

// A run that is to begin, and has perhaps begun already.
struct OrderedRun {
  std::string task;
  int attempt = 0;
  int run = 0;
};

struct ReadLog {
  std::string task;
  uint64_t offset = 0;                 // of the first byte to send
  std::optional<uint64_t> tail_lines;  // instead of `offset`: the last N lines
  // From the first text that was written then or later (wall clock of its host) on; with
  // `tail_lines`, whichever is later.
  std::optional<int64_t> since_ns;
  bool stderr_alone =
      false;         // `tail_lines` are stderr's; what stdout wrote in between comes as well
  std::string grep;  // only lines in which this POSIX extended regular expression is found
  bool exact_times = false;  // text of two times is two segments
  bool all_frames = false;   // with `tail_lines`, also the old ones of a line that redraws itself
  bool follow = false;       // go on until the job is over
  uint64_t credit = 0;       // bytes that may be sent before the first `credit`

  // The first piece may begin anywhere: the host looks for its beginning.
  [[nodiscard]] bool begins_somewhere() const { return tail_lines || since_ns; }
};

enum class Stream : uint8_t { kUnknown = 0, kStdout = 1, kStderr = 2, kMerged = 3, kTfdist = 4 };

struct LogSegment {
  Stream stream = Stream::kUnknown;
  uint32_t size_bytes = 0;
  int attempt = 0;
  int run = 0;
  int64_t time_ns = 0;
};

// `segments` cover `data` without a gap. `offset` may be past what was asked: rotated away, or left out because it belongs
// to lines that are not asked for.
struct LogPiece {
  uint64_t offset = 0;
  std::vector<LogSegment> segments;
  std::string data;  // the payload
  bool left_out = false;
};

// ---------------------------------------------------------------------------------------------
// Encoding

// Deeper nests no header; an event of a plan, the deepest, has 7.
inline constexpr size_t kDeepestMessage = 32;

// All of a message but its payload, which comes after it: 4 bytes of length, and the header. `sums_payload`: with the payload's checksum.
std::string Head(const Message& message, bool sums_payload = false);
// Head and payload.
std::string Encode(const Message& message);
// Throws ProtocolError when `bytes` are not a message, or the payload does not have its checksum. `is_whole`: whether that or the header
// tells that all of it is as it was sent.
Message Decode(std::string_view bytes, bool* is_whole = nullptr);

Message ErrorMessage(uint64_t id, const Error& error);

// A job of that name runs already, or is being started: which, and what it was planned from.
class NameTaken : public Refusal {
 public:
  // Phase, cause and remedy are those of `error`.
  NameTaken(const Error& error, std::string job, std::string plan_sha256, bool committed);
  [[nodiscard]] const std::string& job() const { return job_; }
  [[nodiscard]] const std::string& plan_sha256() const { return plan_sha256_; }
  // False also where its agent does not answer: then it may come to nothing.
  [[nodiscard]] bool committed() const { return committed_; }

 private:
  std::string job_;
  std::string plan_sha256_;
  bool committed_;
};

// Throws the Refusal that an `error` message carries (a NameTaken where it names a job); other
// messages pass.
void ThrowIfError(const Message& message);

template <typename T>
concept HasPayload = requires(T value) {
  { value.data } -> std::same_as<std::string&>;
};

// The body as a T, but for its payload; throws ProtocolError that names the message type and what is wrong.
template <typename T>
T BodyAlone(const Message& message) {
  try {
    return message.body.get<T>();
  } catch (const Json::exception& e) {
    throw ProtocolError(Phase::kControl, "malformed message '" + message.type + "': " + e.what());
  }
}

// The body as a T; throws as BodyAlone.
template <typename T>
T Body(const Message& message) {
  T value = BodyAlone<T>(message);
  if constexpr (HasPayload<T>) value.data = message.payload;
  return value;
}
template <HasPayload T>
T Body(Message&& message) {
  T value = BodyAlone<T>(message);
  value.data = std::move(message.payload);
  return value;
}

// A message with all of `body`.
template <HasPayload T>
Message MessageWith(std::string_view type, uint64_t id, T body) {
  return {std::string(type), id, body, std::move(body.data)};
}

#define TFDIST_BODY(T)                      \
  void to_json(Json& json, const T& value); \
  void from_json(const Json& json, T& value)
TFDIST_BODY(ErrorBody);
TFDIST_BODY(Hello);
TFDIST_BODY(Create);
TFDIST_BODY(FilePiece);
TFDIST_BODY(OrderedRun);
TFDIST_BODY(ReadLog);
TFDIST_BODY(LogSegment);
TFDIST_BODY(LogPiece);
#undef TFDIST_BODY

}  // namespace tfdist::protocol
