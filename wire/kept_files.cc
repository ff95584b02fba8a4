#include "wire/kept_files.h"

#include "base/json_fields.h"

namespace tfdist::protocol {

TFDIST_JSON_FIELDS(KeptFound, kept, kept_by)
TFDIST_JSON_FIELDS(KeptBy, who, is_stranger)
TFDIST_JSON_FIELDS(KeptFiles, files, bytes, newest, age_s, all)

}  // namespace tfdist::protocol
