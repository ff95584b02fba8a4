#include "agent/protocol.h"

#include <fmt/format.h>

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

}  // namespace

void to_json(Json& json, const Bytes& bytes) { json = ToBinary(bytes.value); }
void from_json(const Json& json, Bytes& bytes) { bytes.value = RawText(json); }

void to_json(Json& json, const Text& text) {
  json = Json::array();
  for (const auto& part : text.parts) {
    if (const auto* literal = std::get_if<std::string>(&part)) {
      json.push_back(ToBinary(*literal));
    } else {
      const auto& address = std::get<SlotAddress>(part);
      json.push_back({{"slot", address.slot}, {"bracketed", address.bracketed}});
    }
  }
}

void from_json(const Json& json, Text& text) {
  text.parts.clear();
  for (const Json& part : json) {
    if (part.is_object()) {
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

std::string Fill(const Text& text, std::span<const std::string> addresses) {
  std::string filled;
  for (const auto& part : text.parts) {
    if (const auto* literal = std::get_if<std::string>(&part)) {
      filled += *literal;
      continue;
    }
    const auto& [slot, bracketed] = std::get<SlotAddress>(part);
    if (slot < 0 || static_cast<size_t>(slot) >= addresses.size()) {
      throw Error(Phase::kControl, fmt::format("no address of slot {} was given", slot));
    }
    filled += AddressText(addresses[static_cast<size_t>(slot)], bracketed);
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
  try {
    const Json json = Json::from_cbor(bytes);
    Message message{json.at("t").get<std::string>(), json.at("id").get<uint64_t>(), json.at("b")};
    if (!message.body.is_object()) throw Error(Phase::kControl, "message body is not a map");
    return message;
  } catch (const Json::exception& e) {
    throw Error(Phase::kControl, fmt::format("malformed message: {}", e.what()));
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
  return {std::string(type::kError), id, body};
}

void ThrowIfError(const Message& message) {
  if (message.type != type::kError) return;
  const auto body = Body<ErrorBody>(message);
  const Error error(PhaseFromName(body.phase), body.cause, body.remedy);
  if (!body.job.empty()) throw NameTaken(error, body.job, body.plan_sha256);
  throw error;
}

NameTaken::NameTaken(const Error& error, std::string job, std::string plan_sha256)
    : Error(error), job_(std::move(job)), plan_sha256_(std::move(plan_sha256)) {}

// The bodies ----------------------------------------------------------------------------------

void to_json(Json& json, const FileDescription& value) {
  json = {{"sha256", value.sha256},
          {"size", value.size_bytes},
          {"executable", value.executable},
          {"link", value.link}};
}
void from_json(const Json& json, FileDescription& value) {
  json.at("sha256").get_to(value.sha256);
  json.at("size").get_to(value.size_bytes);
  json.at("executable").get_to(value.executable);
  json.at("link").get_to(value.link);
}

void to_json(Json& json, const TaskDescription& value) {
  Json env = Json::array();
  for (const auto& [name, text] : value.env) env.push_back(Json::array({ToBinary(name), text}));
  json = {{"task", value.task},
          {"argv", value.argv},
          {"env", env},
          {"ports", value.ports},
          {"merged_output", value.merged_output},
          {"log_limit", value.log_limit_bytes},
          {"grace_ms", value.grace_ms}};
}
void from_json(const Json& json, TaskDescription& value) {
  json.at("task").get_to(value.task);
  json.at("argv").get_to(value.argv);
  value.env.clear();
  for (const Json& entry : json.at("env")) {
    value.env.emplace_back(RawText(entry.at(0)), entry.at(1).get<Text>());
  }
  json.at("ports").get_to(value.ports);
  json.at("merged_output").get_to(value.merged_output);
  json.at("log_limit").get_to(value.log_limit_bytes);
  json.at("grace_ms").get_to(value.grace_ms);
}

void to_json(Json& json, const HostDescription& value) {
  json = {{"tasks", value.tasks}, {"files", value.files}, {"secret", value.secret}};
  Put(json, "workdir", value.workdir);
}
void from_json(const Json& json, HostDescription& value) {
  json.at("tasks").get_to(value.tasks);
  json.at("files").get_to(value.files);
  json.at("secret").get_to(value.secret);
  Get(json, "workdir", value.workdir);
}

void to_json(Json& json, const SlotPlan& value) {
  json = {{"host", value.host}, {"address", value.address}, {"spare", value.spare}};
}
void from_json(const Json& json, SlotPlan& value) {
  json.at("host").get_to(value.host);
  json.at("address").get_to(value.address);
  json.at("spare").get_to(value.spare);
}

void to_json(Json& json, const RestartRule& value) {
  json = {{"policy", value.policy}, {"limit", value.limit}, {"backoff_ms", value.backoff_ms}};
}
void from_json(const Json& json, RestartRule& value) {
  json.at("policy").get_to(value.policy);
  json.at("limit").get_to(value.limit);
  json.at("backoff_ms").get_to(value.backoff_ms);
}

void to_json(Json& json, const TaskPlan& value) {
  json = {{"task", value.task},       {"slot", value.slot},         {"chief", value.chief},
          {"decides", value.decides}, {"may_fail", value.may_fail}, {"restart", value.restart}};
}
void from_json(const Json& json, TaskPlan& value) {
  json.at("task").get_to(value.task);
  json.at("slot").get_to(value.slot);
  json.at("chief").get_to(value.chief);
  json.at("decides").get_to(value.decides);
  json.at("may_fail").get_to(value.may_fail);
  json.at("restart").get_to(value.restart);
}

void to_json(Json& json, const JobPlan& value) {
  json = {{"job", value.job},           {"name", value.name},   {"layout", value.layout},
          {"plan_sha256", value.plan_sha256}, {"slots", value.slots}, {"tasks", value.tasks}};
}
void from_json(const Json& json, JobPlan& value) {
  json.at("job").get_to(value.job);
  json.at("name").get_to(value.name);
  json.at("layout").get_to(value.layout);
  json.at("plan_sha256").get_to(value.plan_sha256);
  json.at("slots").get_to(value.slots);
  json.at("tasks").get_to(value.tasks);
}

void to_json(Json& json, const TaskExit& value) {
  json = {{"code", value.code},
          {"signal", value.signal},
          {"by_us", value.by_us},
          {"error", value.error}};
}
void from_json(const Json& json, TaskExit& value) {
  json.at("code").get_to(value.code);
  json.at("signal").get_to(value.signal);
  json.at("by_us").get_to(value.by_us);
  json.at("error").get_to(value.error);
}

void to_json(Json& json, const Event& value) {
  json = {{"number", value.number},
          {"time_ns", value.time_ns},
          {"kind", value.kind},
          {"fields", value.fields}};
}
void from_json(const Json& json, Event& value) {
  json.at("number").get_to(value.number);
  json.at("time_ns").get_to(value.time_ns);
  json.at("kind").get_to(value.kind);
  value.fields = json.at("fields");
}

void to_json(Json& json, const ErrorBody& value) {
  json = {{"phase", value.phase},
          {"cause", value.cause},
          {"remedy", value.remedy},
          {"job", value.job},
          {"plan_sha256", value.plan_sha256}};
}
void from_json(const Json& json, ErrorBody& value) {
  json.at("phase").get_to(value.phase);
  json.at("cause").get_to(value.cause);
  json.at("remedy").get_to(value.remedy);
  json.at("job").get_to(value.job);
  json.at("plan_sha256").get_to(value.plan_sha256);
}

void to_json(Json& json, const Hello& value) {
  json = {{"oldest", value.oldest}, {"newest", value.newest},
          {"serving", value.serving}, {"agent_sha256", value.agent_sha256},
          {"base", value.base},     {"job", value.job},
          {"slot", value.slot},     {"public_key", value.public_key}};
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
}

void to_json(Json& json, const Create& value) {
  json = {{"version", value.version},
          {"job", value.job},
          {"name", value.name},
          {"plan_sha256", value.plan_sha256},
          {"slot", value.slot},
          {"address", value.address},
          {"port", value.port},
          {"uncommitted_limit_ms", value.uncommitted_limit_ms},
          {"orphan_timeout_ms", value.orphan_timeout_ms}};
}
void from_json(const Json& json, Create& value) {
  json.at("version").get_to(value.version);
  json.at("job").get_to(value.job);
  json.at("name").get_to(value.name);
  json.at("plan_sha256").get_to(value.plan_sha256);
  json.at("slot").get_to(value.slot);
  json.at("address").get_to(value.address);
  json.at("port").get_to(value.port);
  json.at("uncommitted_limit_ms").get_to(value.uncommitted_limit_ms);
  json.at("orphan_timeout_ms").get_to(value.orphan_timeout_ms);
}

void to_json(Json& json, const FilePiece& value) {
  json = {{"sha256", value.sha256},
          {"offset", value.offset},
          {"gzip", value.gzip},
          {"last", value.last}};
}
void from_json(const Json& json, FilePiece& value) {
  json.at("sha256").get_to(value.sha256);
  json.at("offset").get_to(value.offset);
  json.at("gzip").get_to(value.gzip);
  json.at("last").get_to(value.last);
}

void to_json(Json& json, const ReadLog& value) {
  json = {{"task", value.task},
          {"offset", value.offset},
          {"follow", value.follow},
          {"credit", value.credit}};
  Put(json, "tail_lines", value.tail_lines);
}
void from_json(const Json& json, ReadLog& value) {
  json.at("task").get_to(value.task);
  json.at("offset").get_to(value.offset);
  json.at("follow").get_to(value.follow);
  json.at("credit").get_to(value.credit);
  Get(json, "tail_lines", value.tail_lines);
}

void to_json(Json& json, const LogSegment& value) {
  json = Json::array({static_cast<int>(value.stream), value.size_bytes, value.attempt, value.run,
                      value.time_ns});
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

void to_json(Json& json, const LogPiece& value) {
  json = {{"offset", value.offset}, {"segments", value.segments}, {"data", value.data}};
}
void from_json(const Json& json, LogPiece& value) {
  json.at("offset").get_to(value.offset);
  json.at("segments").get_to(value.segments);
  json.at("data").get_to(value.data);
}

void to_json(Json& json, const Census& value) {
  json = {{"killed", value.killed}, {"left", value.left}};
}
void from_json(const Json& json, Census& value) {
  json.at("killed").get_to(value.killed);
  json.at("left").get_to(value.left);
}

}  // namespace tfdist::protocol
