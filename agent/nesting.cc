#include "agent/nesting.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tfdist::protocol {
namespace {

using Json = nlohmann::json;

// The deepest message, an event of a plan, has 7.
constexpr int kDeepest = 32;

// Told of each value as the reader comes to it; false makes the reader stop.
class NestingReader : public nlohmann::json_sax<Json> {
 public:
  [[nodiscard]] bool too_deep() const { return depth_ > kDeepest; }

  bool start_object(std::size_t) override { return Enter(); }
  bool start_array(std::size_t) override { return Enter(); }
  bool end_object() override { return Leave(); }
  bool end_array() override { return Leave(); }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool key(string_t&) override { return true; }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override {
    return false;
  }

 private:
  bool Enter() { return ++depth_ <= kDeepest; }
  bool Leave() {
    --depth_;
    return true;
  }

  int depth_ = 0;
};

}  // namespace

void CheckNesting(std::string_view cbor) {
  NestingReader reader;
  Json::sax_parse(cbor.begin(), cbor.end(), &reader, Json::input_format_t::cbor);
  if (reader.too_deep()) throw Error(Phase::kControl, "malformed message: nested too deeply");
}

}  // namespace tfdist::protocol
