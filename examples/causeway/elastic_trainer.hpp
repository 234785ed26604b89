// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_ELASTIC_TRAINER_HPP
#define CAUSEWAY_EXAMPLES_ELASTIC_TRAINER_HPP

// A run of peers that come and go, in which every peer holds the model. It instantiates much: include it in few files.

#include <causeway/fault/quorum.hpp>
#include <causeway/train/trainer.hpp>

#include <cstdint>
#include <utility>

#include "chosen_model.hpp"
#include "compose.hpp"
#include "elastic_session.hpp"
#include "paced_data_parallel.hpp"
#include "training.hpp"

namespace app {

/// `fragments`: into how many the policy cuts the model.
template <class Comm>
causeway::result<session_summary> train_elastic(chosen_model model, training t, Comm comm, std::uint64_t fragments = 1) {
  const settings& s = t.in.s;
  paced_data_parallel parallel{{.micro_batches = s.train.micro_batches, .added_apart = s.train.added_apart},
                               t.place->computed};
  auto trainer = causeway::make_trainer(std::move(model), std::move(t.env), trainer_options_of(s), inner_of(s),
                                        std::move(comm), std::move(parallel), causeway::fault::quorum{});
  handle_of handle{trainer};
  return run_session(handle, t.in, *t.place, fragments);
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_ELASTIC_TRAINER_HPP
