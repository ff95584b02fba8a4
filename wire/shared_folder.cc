#include "wire/shared_folder.h"

#include "base/json_fields.h"

namespace tfdist::protocol {

TFDIST_JSON_FIELDS(SharedFolder, marked, why)

}  // namespace tfdist::protocol
