#include "agent/shared_folder.h"

#include "agent/json_fields.h"

namespace tfdist::protocol {

TFDIST_JSON_FIELDS(SharedFolder, marked, why)

}  // namespace tfdist::protocol
