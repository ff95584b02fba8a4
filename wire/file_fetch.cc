#include "wire/file_fetch.h"

#include "base/failures.h"
#include "base/json_fields.h"

namespace tfdist::protocol {

TFDIST_JSON_FIELDS(Fetched, bytes, done, missing, why)
TFDIST_JSON_FIELDS(FileAsk, sha256, offset)

void to_json(Json& json, const FilePart& value) {
  json = {
      {"sha256", value.sha256}, {"offset", value.offset}, {"state", static_cast<int>(value.state)}};
}

void from_json(const Json& json, FilePart& value) {
  json.at("sha256").get_to(value.sha256);
  json.at("offset").get_to(value.offset);
  const int state = json.at("state").get<int>();
  // One that this version does not know is no data.
  value.state = state == static_cast<int>(PartState::kData)    ? PartState::kData
                : state == static_cast<int>(PartState::kLater) ? PartState::kLater
                                                               : PartState::kNone;
}

}  // namespace tfdist::protocol
