#include "agent/protocol.h"

#include <fmt/format.h>

#include "agent/json_fields.h"
#include "agent/named_enum.h"
#include "agent/nesting.h"
#include "agent/refusal.h"
#include "base/json_numbers.h"

namespace tfdist::protocol {
namespace {

std::string ToText(const Json::binary_t& bytes) { return {bytes.begin(), bytes.end()}; }

// Text that comes as a CBOR byte string or, where the sender knew that it is UTF-8, as a string.
std::string RawText(const Json& json) {
  return json.is_binary() ? ToText(json.get_binary()) : json.get<std::string>();
}

Json ToBinary(const std::string& text) {
  return Json::binary(std::vector<uint8_t>(text.begin(), text.end()));
}

template <typename T>
void Put(Json& json, const char* key, const std::optional<T>& value) {
  if (value) json[key] = *value;
}

template <typename T>
void Get(const Json& json, const char* key, std::optional<T>& value) {
  if (json.contains(key)) value = json.at(key).get<T>();
}

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

}  // namespace

void to_json(Json& json, const Bytes& bytes) { json = ToBinary(bytes.value); }
void from_json(const Json& json, Bytes& bytes) { bytes.value = RawText(json); }

void to_json(Json& json, const Text& text) {
  json = Json::array();
  for (const auto& part : text.parts) {
    if (const auto* literal = std::get_if<std::string>(&part)) {
      json.push_back(ToBinary(*literal));
    } else if (const auto* address = std::get_if<SlotAddress>(&part)) {
      json.push_back({{"slot", address->slot}, {"bracketed", address->bracketed}});
    } else {
      json.push_back({{"common", std::get<CommonText>(part).name}});
    }
  }
}

void from_json(const Json& json, Text& text) {
  text.parts.clear();
  for (const Json& part : json) {
    if (part.is_object() && part.contains("common")) {
      text.parts.emplace_back(CommonText{part.at("common").get<std::string>()});
    } else if (part.is_object()) {
      text.parts.emplace_back(
          SlotAddress{part.at("slot").get<int>(), part.at("bracketed").get<bool>()});
    } else {
      text.parts.emplace_back(RawText(part));
    }
  }
}

std::string AddressText(std::string_view address, bool bracketed) {
  const bool is_ipv6 = address.find(':') != std::string_view::npos;
  return bracketed && is_ipv6 ? fmt::format("[{}]", address) : std::string(address);
}

std::string Fill(const Text& text, std::span<const std::string> addresses,
                 const CommonTexts& common) {
  std::string filled;
  for (const auto& part : text.parts) {
    if (const auto* literal = std::get_if<std::string>(&part)) {
      filled += *literal;
    } else if (const auto* place = std::get_if<SlotAddress>(&part)) {
      if (place->slot < 0 || static_cast<size_t>(place->slot) >= addresses.size()) {
        throw ProtocolError(Phase::kControl,
                            fmt::format("no address of slot {} was given", place->slot));
      }
      filled += AddressText(addresses[static_cast<size_t>(place->slot)], place->bracketed);
    } else {
      const auto& name = std::get<CommonText>(part).name;
      const auto found = common.find(name);
      if (found == common.end()) {
        throw ProtocolError(Phase::kControl, fmt::format("no text '{}' was given", name));
      }
      filled += Fill(found->second, addresses, {});
    }
  }
  return filled;
}

std::string Encode(const Message& message) {
  const Json json = {{"t", message.type}, {"id", message.id}, {"b", message.body}};
  std::string bytes;
  Json::to_cbor(json, bytes);
  return bytes;
}

Message Decode(std::string_view bytes) {
  CheckNesting(bytes);
  try {
    const Json json = Json::from_cbor(bytes);
    if (!NumbersFit(json)) throw ProtocolError(Phase::kControl, "a number is out of range");
    Message message{json.at("t").get<std::string>(), json.at("id").get<uint64_t>(), json.at("b")};
    if (!message.body.is_object())
      throw ProtocolError(Phase::kControl, "message body is not a map");
    return message;
  } catch (const Json::exception& e) {
    throw ProtocolError(Phase::kControl, fmt::format("malformed message: {}", e.what()));
  }
}

Message ErrorMessage(uint64_t id, const Error& error) {
  ErrorBody body;
  body.phase = PhaseName(error.phase());
  body.cause = error.cause();
  body.remedy = error.remedy();
  if (const auto* taken = dynamic_cast<const NameTaken*>(&error)) {
    body.job = taken->job();
    body.plan_sha256 = taken->plan_sha256();
  }
  Message message{std::string(type::kError), id, body};
  message.body["kind"] = RefusalKindName(KindOf(error));
  return message;
}

void ThrowIfError(const Message& message) {
  if (message.type != type::kError) return;
  const auto body = Body<ErrorBody>(message);
  const RefusalKind kind = RefusalKindFromName(message.body.value("kind", ""));
  const Refusal refusal(kind, PhaseFromName(body.phase), body.cause, body.remedy);
  if (kind == RefusalKind::kNameTaken) throw NameTaken(refusal, body.job, body.plan_sha256);
  throw refusal;
}

NameTaken::NameTaken(const Error& error, std::string job, std::string plan_sha256)
    : Refusal(RefusalKind::kNameTaken, error.phase(), error.cause(), error.remedy()),
      job_(std::move(job)),
      plan_sha256_(std::move(plan_sha256)) {}

// The bodies ----------------------------------------------------------------------------------

void to_json(Json& json, const Serving& value) { json = NameIn(kServing, value); }
void from_json(const Json& json, Serving& value) { value = ValueIn(kServing, json); }

TFDIST_JSON_FIELDS(FileDescription, sha256, size_bytes, executable, link)
TFDIST_JSON_FIELDS(ErrorBody, phase, cause, remedy, job, plan_sha256)
TFDIST_JSON_FIELDS(Create, version, job, name, plan_sha256, slot, address, port,
                   uncommitted_limit_ms, orphan_timeout_ms)
TFDIST_JSON_FIELDS(FilePiece, sha256, offset, gzip, last)
TFDIST_JSON_FIELDS(LogPiece, offset, segments, data)

void to_json(Json& json, const GpuShare& value) {
  json = {{"part", value.part}, {"parts", value.parts}};
}
void from_json(const Json& json, GpuShare& value) {
  json.at("part").get_to(value.part);
  json.at("parts").get_to(value.parts);
  if (value.part < 0 || value.part >= value.parts) {
    throw ProtocolError(Phase::kControl,
                        fmt::format("part {} of {} parts of the GPUs", value.part, value.parts));
  }
}

void to_json(Json& json, const Hello& value) {
  json = {{"oldest", value.oldest},   {"newest", value.newest},
          {"serving", value.serving}, {"agent_sha256", value.agent_sha256},
          {"base", value.base},       {"job", value.job},
          {"slot", value.slot},       {"public_key", value.public_key}};
  Put(json, "damage", value.damage);
  Put(json, "orphaned", value.orphaned);
  Put(json, "killed", value.killed);
}

void from_json(const Json& json, Hello& value) {
  json.at("oldest").get_to(value.oldest);
  json.at("newest").get_to(value.newest);
  json.at("serving").get_to(value.serving);
  json.at("agent_sha256").get_to(value.agent_sha256);
  json.at("base").get_to(value.base);
  json.at("job").get_to(value.job);
  json.at("slot").get_to(value.slot);
  json.at("public_key").get_to(value.public_key);
  Get(json, "damage", value.damage);
  Get(json, "orphaned", value.orphaned);
  Get(json, "killed", value.killed);
}

void to_json(Json& json, const TaskDescription& value) {
  Json env = Json::array();
  for (const auto& [name, text] : value.env) env.push_back(Json::array({ToBinary(name), text}));
  json = {{"task", value.task},
          {"slot", value.slot},
          {"argv", value.argv},
          {"unset", value.unset},
          {"env", env},
          {"ports", value.ports},
          {"merged_output", value.merged_output},
          {"log_limit", value.log_limit_bytes},
          {"grace_ms", value.grace_ms},
          {"warning_signal", value.warning_signal}};
  Put(json, "gpu_share", value.gpu_share);
}
void from_json(const Json& json, TaskDescription& value) {
  json.at("task").get_to(value.task);
  json.at("slot").get_to(value.slot);
  json.at("argv").get_to(value.argv);
  json.at("unset").get_to(value.unset);
  value.env.clear();
  for (const Json& entry : json.at("env")) {
    value.env.emplace_back(RawText(entry.at(0)), entry.at(1).get<Text>());
  }
  json.at("ports").get_to(value.ports);
  json.at("merged_output").get_to(value.merged_output);
  json.at("log_limit").get_to(value.log_limit_bytes);
  json.at("grace_ms").get_to(value.grace_ms);
  value.warning_signal = json.value("warning_signal", 0);
  Get(json, "gpu_share", value.gpu_share);
}

void to_json(Json& json, const HostDescription& value) {
  json = {{"tasks", value.tasks},      {"common", value.common}, {"files", value.files},
          {"secret", value.secret},    {"slots", value.slots},   {"shared", value.shared},
          {"replaces", value.replaces}};
  Put(json, "workdir", value.workdir);
}
void from_json(const Json& json, HostDescription& value) {
  json.at("tasks").get_to(value.tasks);
  json.at("common").get_to(value.common);
  json.at("files").get_to(value.files);
  json.at("secret").get_to(value.secret);
  json.at("slots").get_to(value.slots);
  value.shared = json.value("shared", "");
  value.replaces = json.value("replaces", "");
  Get(json, "workdir", value.workdir);
}

TFDIST_JSON_FIELDS(OrderedRun, task, attempt, run)

void to_json(Json& json, const ReadLog& value) {
  json = {{"task", value.task},
          {"offset", value.offset},
          {"follow", value.follow},
          {"credit", value.credit}};
  Put(json, "tail_lines", value.tail_lines);
  Put(json, "since_ns", value.since_ns);
  if (!value.grep.empty()) json["grep"] = ToBinary(value.grep);
  if (value.exact_times) json["exact_times"] = true;
  if (value.stderr_alone) json["stderr_alone"] = true;
}
void from_json(const Json& json, ReadLog& value) {
  json.at("task").get_to(value.task);
  json.at("offset").get_to(value.offset);
  json.at("follow").get_to(value.follow);
  json.at("credit").get_to(value.credit);
  Get(json, "tail_lines", value.tail_lines);
  Get(json, "since_ns", value.since_ns);
  if (json.contains("grep")) value.grep = RawText(json.at("grep"));
  value.exact_times = json.value("exact_times", false);
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
