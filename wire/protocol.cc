#include "wire/protocol.h"

#include <fmt/format.h>
#include <zlib.h>

#include "base/json_fields.h"
#include "base/json_numbers.h"
#include "base/named_enum.h"
#include "base/process_limits.h"
#include "wire/length.h"
#include "wire/refusal.h"

namespace tfdist::protocol {
namespace {

RefusalKind KindOf(const Error& error) {
  if (const auto* refusal = dynamic_cast<const Refusal*>(&error)) return refusal->kind();
  const bool malformed = dynamic_cast<const ProtocolError*>(&error) != nullptr;
  return malformed ? RefusalKind::kMalformed : RefusalKind::kFailed;
}

constexpr EnumNames<Serving, 3> kServing = {{
    {Serving::kStart, "start"},
    {Serving::kAgent, "agent"},
    {Serving::kFolder, "folder"},
}};

uint32_t Checksum(std::string_view payload) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(payload.data()), payload.size()));
}

// For Json::parse. What reads the values afterwards does so by recursion.
bool RefuseDepth(int depth, Json::parse_event_t event, Json&) {
  const bool begins =
      event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
  if (begins && depth >= static_cast<int>(kDeepestMessage)) {
    throw ProtocolError(Phase::kControl, "malformed message: nested too deeply");
  }
  return true;
}

}  // namespace

std::string Head(const Message& message, bool sums_payload) {
  Json json{{"t", message.type}, {"id", message.id}, {"b", message.body}};
  if (sums_payload && !message.payload.empty()) json["c"] = Checksum(message.payload);
  const std::string header = JsonLine(json);
  std::string head;
  head.reserve(kLengthBytes + header.size());
  AppendLength(head, header.size());
  return head += header;
}

std::string Encode(const Message& message) { return Head(message) + message.payload; }

Message Decode(std::string_view bytes, bool* is_whole) {
  const size_t size = bytes.size() < kLengthBytes ? 0 : ReadLength(bytes);
  if (size == 0 || size > bytes.size() - kLengthBytes) {
    throw ProtocolError(Phase::kControl, "message with a header of an impossible length");
  }
  bytes.remove_prefix(kLengthBytes);
  try {
    Json json = Json::parse(bytes.substr(0, size), RefuseDepth);
    if (!NumbersFit(json)) throw ProtocolError(Phase::kControl, "a number is out of range");
    Message message{json.at("t").get<std::string>(), json.at("id").get<uint64_t>(),
                    std::move(json.at("b")), std::string(bytes.substr(size))};
    if (!message.body.is_object())
      throw ProtocolError(Phase::kControl, "message body is not a map");
    const bool is_summed = json.contains("c");
    if (is_summed && json.at("c").get<uint32_t>() != Checksum(message.payload))
      throw ProtocolError(Phase::kControl, "a payload with another checksum");
    if (is_whole != nullptr) *is_whole = is_summed || message.payload.empty();
    return message;
  } catch (const Json::exception&) {
    throw ProtocolError(Phase::kControl, "malformed message");
  }
}

Message ErrorMessage(uint64_t id, const Error& error) {
  ErrorBody body;
  body.phase = PhaseName(error.phase());
  body.cause = error.cause();
  body.remedy = error.remedy();
  if (body.remedy.empty()) body.remedy = LimitRemedy(error.cause());
  const auto* taken = dynamic_cast<const NameTaken*>(&error);
  if (taken != nullptr) {
    body.job = taken->job();
    body.plan_sha256 = taken->plan_sha256();
  }
  Message message{std::string(type::kError), id, body};
  message.body["kind"] = RefusalKindName(KindOf(error));
  if (taken != nullptr) message.body["committed"] = taken->committed();
  return message;
}

void ThrowIfError(const Message& message) {
  if (message.type != type::kError) return;
  const auto body = Body<ErrorBody>(message);
  const RefusalKind kind = RefusalKindFromName(message.body.value("kind", ""));
  const Refusal refusal(kind, PhaseFromName(body.phase), body.cause, body.remedy);
  if (kind == RefusalKind::kNameTaken) {
    throw NameTaken(refusal, body.job, body.plan_sha256, message.body.value("committed", false));
  }
  throw refusal;
}

NameTaken::NameTaken(const Error& error, std::string job, std::string plan_sha256, bool committed)
    : Refusal(RefusalKind::kNameTaken, error.phase(), error.cause(), error.remedy()),
      job_(std::move(job)),
      plan_sha256_(std::move(plan_sha256)),
      committed_(committed) {}

// The bodies ----------------------------------------------------------------------------------

void to_json(Json& json, const Serving& value) { json = NameIn(kServing, value); }
void from_json(const Json& json, Serving& value) { value = ValueIn(kServing, json); }

TFDIST_JSON_FIELDS(ErrorBody, phase, cause, remedy, job, plan_sha256)
TFDIST_JSON_FIELDS(Create, version, job, name, plan_sha256, started_by, slot, address, port,
                   uncommitted_limit_ms, orphan_timeout_ms)
TFDIST_JSON_FIELDS(FilePiece, sha256, offset, last)

void to_json(Json& json, const LogPiece& value) {
  json = {{"offset", value.offset}, {"segments", value.segments}};
  if (value.left_out) json["left_out"] = true;
}
void from_json(const Json& json, LogPiece& value) {
  json.at("offset").get_to(value.offset);
  json.at("segments").get_to(value.segments);
  value.left_out = json.value("left_out", false);
}

void to_json(Json& json, const Hello& value) {
  json = {{"oldest", value.oldest},    {"newest", value.newest},
          {"serving", value.serving},  {"agent_sha256", value.agent_sha256},
          {"base", Bytes{value.base}}, {"job", value.job},
          {"slot", value.slot},        {"public_key", value.public_key}};
  if (!value.machine.empty()) json["machine"] = value.machine;
  Put(json, "damage", value.damage);
  Put(json, "orphaned", value.orphaned);
  Put(json, "killed", value.killed);
  Put(json, "silent", value.silent);
}

void from_json(const Json& json, Hello& value) {
  json.at("oldest").get_to(value.oldest);
  json.at("newest").get_to(value.newest);
  json.at("serving").get_to(value.serving);
  json.at("agent_sha256").get_to(value.agent_sha256);
  value.base = json.at("base").get<Bytes>().value;
  json.at("job").get_to(value.job);
  json.at("slot").get_to(value.slot);
  json.at("public_key").get_to(value.public_key);
  value.machine = json.value("machine", "");
  Get(json, "damage", value.damage);
  Get(json, "orphaned", value.orphaned);
  Get(json, "killed", value.killed);
  Get(json, "silent", value.silent);
}

TFDIST_JSON_FIELDS(OrderedRun, task, attempt, run)

void to_json(Json& json, const ReadLog& value) {
  json = {{"task", value.task},
          {"offset", value.offset},
          {"follow", value.follow},
          {"credit", value.credit}};
  Put(json, "tail_lines", value.tail_lines);
  Put(json, "since_ns", value.since_ns);
  if (!value.grep.empty()) json["grep"] = Bytes{value.grep};
  if (value.exact_times) json["exact_times"] = true;
  if (value.all_frames) json["all_frames"] = true;
  if (value.stderr_alone) json["stderr_alone"] = true;
}
void from_json(const Json& json, ReadLog& value) {
  json.at("task").get_to(value.task);
  json.at("offset").get_to(value.offset);
  json.at("follow").get_to(value.follow);
  json.at("credit").get_to(value.credit);
  Get(json, "tail_lines", value.tail_lines);
  Get(json, "since_ns", value.since_ns);
  if (json.contains("grep")) value.grep = json.at("grep").get<Bytes>().value;
  value.exact_times = json.value("exact_times", false);
  value.all_frames = json.value("all_frames", false);
  value.stderr_alone = json.value("stderr_alone", false);
}

void to_json(Json& json, const LogSegment& value) {
  json = Json::array(
      {static_cast<int>(value.stream), value.size_bytes, value.attempt, value.run, value.time_ns});
}
void from_json(const Json& json, LogSegment& value) {
  const int stream = json.at(0).get<int>();
  const bool known = stream >= 0 && stream <= static_cast<int>(Stream::kTfdist);
  value.stream = known ? static_cast<Stream>(stream) : Stream::kUnknown;
  json.at(1).get_to(value.size_bytes);
  json.at(2).get_to(value.attempt);
  json.at(3).get_to(value.run);
  json.at(4).get_to(value.time_ns);
}

}  // namespace tfdist::protocol
