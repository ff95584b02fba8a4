#include "wire/resolved_names.h"

#include "base/json_fields.h"

namespace tfdist::protocol {

TFDIST_JSON_FIELDS(ResolvedName, name, addresses, why)
TFDIST_JSON_FIELDS(ResolvedNames, names, own)

}  // namespace tfdist::protocol
