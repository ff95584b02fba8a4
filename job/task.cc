#include "job/task.h"

#include <fmt/format.h>

#include "base/failures.h"
#include "base/json_fields.h"

namespace tfdist::protocol {

void to_json(Json& json, const Text& text) {
  json = Json::array();
  for (const auto& part : text.parts) {
    if (const auto* literal = std::get_if<std::string>(&part)) {
      json.push_back(Bytes{*literal});
    } else if (const auto* address = std::get_if<SlotAddress>(&part)) {
      json.push_back({{"slot", address->slot}, {"bracketed", address->bracketed}});
    } else if (const auto* common = std::get_if<CommonText>(&part)) {
      json.push_back({{"common", common->name}});
    } else {
      json.push_back({{"variable", std::get<HostVariable>(part).name}});
    }
  }
}

void from_json(const Json& json, Text& text) {
  text.parts.clear();
  for (const Json& part : json) {
    if (part.is_object() && part.contains("common")) {
      text.parts.emplace_back(CommonText{part.at("common").get<std::string>()});
    } else if (part.is_object() && part.contains("variable")) {
      text.parts.emplace_back(HostVariable{part.at("variable").get<std::string>()});
    } else if (part.is_object()) {
      text.parts.emplace_back(
          SlotAddress{part.at("slot").get<int>(), part.at("bracketed").get<bool>()});
    } else {
      text.parts.emplace_back(part.get<Bytes>().value);
    }
  }
}

bool HoldsLiteral(const Text& text, std::string_view sought) {
  return std::ranges::any_of(text.parts, [&](const Text::Part& part) {
    const auto* literal = std::get_if<std::string>(&part);
    return literal != nullptr && literal->find(sought) != std::string::npos;
  });
}

std::string AddressText(std::string_view address, bool bracketed) {
  const bool is_ipv6 = address.find(':') != std::string_view::npos;
  return bracketed && is_ipv6 ? fmt::format("[{}]", address) : std::string(address);
}

namespace {

class Filler {
 public:
  explicit Filler(const Filling& filling) : filling_(filling) {}

  std::string operator()(const std::string& literal) const { return literal; }

  std::string operator()(const SlotAddress& place) const {
    const auto slot = static_cast<size_t>(place.slot);
    if (place.slot < 0 || slot >= filling_.addresses.size()) {
      throw ProtocolError(Phase::kControl,
                          fmt::format("no address of slot {} was given", place.slot));
    }
    return AddressText(filling_.addresses[slot], place.bracketed);
  }

  std::string operator()(const CommonText& text) const {
    const auto found = filling_.common.find(text.name);
    if (found == filling_.common.end()) {
      throw ProtocolError(Phase::kControl, fmt::format("no text '{}' was given", text.name));
    }
    static const CommonTexts none;  // a common text holds none
    return Fill(found->second, {filling_.addresses, none, filling_.variable});
  }

  std::string operator()(const HostVariable& variable) const {
    return filling_.variable(variable.name);
  }

 private:
  const Filling& filling_;
};

Json EnvJson(const std::vector<std::pair<std::string, Text>>& env) {
  Json json = Json::array();
  for (const auto& [name, text] : env) json.push_back(Json::array({Bytes{name}, text}));
  return json;
}

std::vector<std::pair<std::string, Text>> EnvIn(const Json& json) {
  std::vector<std::pair<std::string, Text>> env;
  for (const Json& entry : json) {
    env.emplace_back(entry.at(0).get<Bytes>().value, entry.at(1).get<Text>());
  }
  return env;
}

}  // namespace

std::string Fill(const Text& text, const Filling& filling) {
  std::string filled;
  for (const auto& part : text.parts) filled += std::visit(Filler(filling), part);
  return filled;
}

void to_json(Json& json, const FileDescription& value) {
  json = {{"sha256", value.sha256},
          {"size_bytes", value.size_bytes},
          {"executable", value.executable},
          {"link", Bytes{value.link}}};
}
void from_json(const Json& json, FileDescription& value) {
  json.at("sha256").get_to(value.sha256);
  json.at("size_bytes").get_to(value.size_bytes);
  json.at("executable").get_to(value.executable);
  value.link = json.at("link").get<Bytes>().value;
}

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

void to_json(Json& json, const TaskDescription& value) {
  json = {{"task", value.task},
          {"slot", value.slot},
          {"argv", value.argv},
          {"unset", value.unset},
          {"env", EnvJson(value.env)},
          {"ports", value.ports},
          {"merged_output", value.merged_output},
          {"log_limit", value.log_limit_bytes},
          {"grace_ms", value.grace_ms},
          {"warning_signal", value.warning_signal}};
  Put(json, "gpu_share", value.gpu_share);
  Put(json, "container", value.container);
  if (!value.cwd.parts.empty()) json["cwd"] = value.cwd;
  if (!value.conda.parts.empty()) json["conda"] = value.conda;
}
void from_json(const Json& json, TaskDescription& value) {
  json.at("task").get_to(value.task);
  json.at("slot").get_to(value.slot);
  json.at("argv").get_to(value.argv);
  json.at("unset").get_to(value.unset);
  value.env = EnvIn(json.at("env"));
  json.at("ports").get_to(value.ports);
  json.at("merged_output").get_to(value.merged_output);
  json.at("log_limit").get_to(value.log_limit_bytes);
  json.at("grace_ms").get_to(value.grace_ms);
  value.warning_signal = json.value("warning_signal", 0);
  Get(json, "gpu_share", value.gpu_share);
  Get(json, "container", value.container);
  value.cwd = json.contains("cwd") ? json.at("cwd").get<Text>() : Text();
  value.conda = json.contains("conda") ? json.at("conda").get<Text>() : Text();
}

void to_json(Json& json, const SetUpDescription& value) {
  Json inputs = Json::array();
  for (const std::string& input : value.inputs) inputs.push_back(Bytes{input});
  json = {{"key", value.key},          {"argv", value.argv},   {"inputs", inputs},
          {"env", EnvJson(value.env)}, {"again", value.again}, {"timeout_ms", value.timeout_ms},
          {"made", value.made}};
}
void from_json(const Json& json, SetUpDescription& value) {
  json.at("key").get_to(value.key);
  json.at("argv").get_to(value.argv);
  value.env = EnvIn(json.at("env"));
  value.inputs.clear();
  for (const Json& input : json.at("inputs")) value.inputs.push_back(input.get<Bytes>().value);
  json.at("timeout_ms").get_to(value.timeout_ms);
  json.at("again").get_to(value.again);
  value.made = json.value("made", "");
}

void to_json(Json& json, const DataDescription& value) {
  json = {
      {"name", value.name}, {"path", value.path}, {"key", value.key}, {"file", Bytes{value.file}}};
}
void from_json(const Json& json, DataDescription& value) {
  json.at("name").get_to(value.name);
  json.at("path").get_to(value.path);
  json.at("key").get_to(value.key);
  value.file = json.at("file").get<Bytes>().value;
}

TFDIST_JSON_FIELDS(KeptClaim, name, home, who, take)

void to_json(Json& json, const HostDescription& value) {
  json = {{"tasks", value.tasks},
          {"common", value.common},
          {"files", value.files},
          {"secret", value.secret},
          {"slots", value.slots},
          {"shared", value.shared},
          {"replaces", value.replaces},
          {"control_port", value.control_port},
          {"needs_ports", value.needs_ports},
          {"first_of_machine", value.first_of_machine}};
  if (!value.workdir.empty()) json["workdir"] = value.workdir;
  Put(json, "set_up", value.set_up);
  if (!value.data.empty()) json["data"] = value.data;
  Put(json, "kept", value.kept);
}
void from_json(const Json& json, HostDescription& value) {
  json.at("tasks").get_to(value.tasks);
  json.at("common").get_to(value.common);
  json.at("files").get_to(value.files);
  json.at("secret").get_to(value.secret);
  json.at("slots").get_to(value.slots);
  value.shared = json.value("shared", "");
  value.replaces = json.value("replaces", "");
  value.control_port = json.value("control_port", 0);
  value.needs_ports = json.value("needs_ports", false);
  value.first_of_machine = json.value("first_of_machine", false);
  // Older jobs have one archive.
  if (const auto workdir = json.find("workdir"); workdir != json.end() && workdir->is_object()) {
    value.workdir = {workdir->get<FileDescription>()};
  } else if (workdir != json.end()) {
    workdir->get_to(value.workdir);
  }
  Get(json, "set_up", value.set_up);
  if (json.contains("data")) json.at("data").get_to(value.data);
  Get(json, "kept", value.kept);
}

}  // namespace tfdist::protocol
