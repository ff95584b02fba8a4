#include "wire/image_pull.h"

#include "base/json_fields.h"

namespace tfdist::protocol {

TFDIST_JSON_FIELDS(PullState, done, image, bytes, why, remedy)

}  // namespace tfdist::protocol
