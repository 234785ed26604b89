// SPDX-License-Identifier: Apache-2.0
#include "elastic_family.hpp"
#include "run_model.hpp"
#include "stand_in.hpp"

namespace app {

causeway::result<session_summary> run_elastic_stand_in(session_input& input, elastic_place& place,
                                                       causeway::environment env) {
  return run_elastic(stand_in{input.s.sim.parameters}, input, place, std::move(env));
}

}  // namespace app
