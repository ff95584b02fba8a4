#include "wire/set_up.h"

#include "base/json_fields.h"

namespace tfdist::protocol {

TFDIST_JSON_FIELDS(SetUpAsk, offset)
TFDIST_JSON_FIELDS(SetUpProgress, offset, left_out, output, waits, done)

}  // namespace tfdist::protocol
