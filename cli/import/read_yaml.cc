#include "cli/import/read_yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <string_view>

#include "base/failures.h"

namespace tfdist::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostValues = 100'000;
constexpr int kDeepest = 100;

[[noreturn]] void Refuse(const YAML::Mark& mark, std::string_view why) {
  throw UsageError(Phase::kConfig, fmt::format("line {}: {}", mark.line + 1, why));
}

class Converter {
 public:
  Json Convert(const YAML::Node& node, int depth = 0) {
    if (++values_ > kMostValues)
      Refuse(node.Mark(), fmt::format("more than {} values", kMostValues));
    if (depth > kDeepest) Refuse(node.Mark(), "nested too deeply");
    switch (node.Type()) {
      case YAML::NodeType::Scalar:
        return Scalar(node);
      case YAML::NodeType::Sequence: {
        Json list = Json::array();
        for (const YAML::Node& each : node) list.push_back(Convert(each, depth + 1));
        return list;
      }
      case YAML::NodeType::Map: {
        Json object = Json::object();
        for (const auto& pair : node) object[KeyOf(pair.first)] = Convert(pair.second, depth + 1);
        return object;
      }
      default:
        return nullptr;
    }
  }

 private:
  static std::string KeyOf(const YAML::Node& key) {
    if (!key.IsScalar()) Refuse(key.Mark(), "a key is no text");
    return key.Scalar();
  }

  // The tag of what stands in quotes is "!".
  static Json Scalar(const YAML::Node& node) {
    const std::string& text = node.Scalar();
    if (node.Tag() == "!") return text;
    if (text.empty() || text == "~" || text == "null") return nullptr;
    if (text == "true" || text == "false") return text == "true";
    const Json number = Json::parse(text, nullptr, false);
    return number.is_number() ? number : Json(text);
  }

  size_t values_ = 0;
};

}  // namespace

std::vector<Json> ReadYaml(const std::string& text) {
  try {
    std::vector<Json> documents;
    Converter converter;
    for (const YAML::Node& node : YAML::LoadAll(text)) documents.push_back(converter.Convert(node));
    return documents;
  } catch (const YAML::Exception& error) {
    Refuse(error.mark, error.msg);
  }
}

}  // namespace tfdist::cli
