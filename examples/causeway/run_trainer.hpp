// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_RUN_TRAINER_HPP
#define CAUSEWAY_EXAMPLES_RUN_TRAINER_HPP

// A trainer with a fixed set of peers, from its first step to the sample of text at the end.

#include <causeway/core/result.hpp>
#include <causeway/io/file.hpp>

#include <string>
#include <utility>

#include "chosen_policy.hpp"
#include "compose.hpp"
#include "generate.hpp"
#include "session.hpp"
#include "trainer_handle.hpp"
#include "training.hpp"

namespace app {

template <class Trainer>
causeway::result<session_summary> run_trainer(Trainer trainer, session_input& in, pace moves) {
  handle_of handle{trainer};
  CAUSEWAY_ASSIGN(const session_summary summary, (session{handle, in, moves}.run()));
  const bool has_all = in.s.parallel.policy == "data";  // what is elsewhere writes no text
  if (trainer.context().self() != 0 || summary.interrupted || !has_all) return summary;
  CAUSEWAY_ASSIGN(const std::string text, sample_text(trainer.model(), in.data.codec, in.s));
  causeway::io::posix_storage storage;
  CAUSEWAY_TRY(storage.write_atomic(in.folder + "/sample.txt", causeway::io::produce(text)));
  return summary;
}

/// The same with any communication policy, inner optimizer and `parallel`. `Traits`: see chosen_comm.
template <causeway::comm_traits Traits = causeway::comm_traits{}, class Parallel>
causeway::result<session_summary> run_trainer(chosen_model model, training t, chosen_policy comm, chosen_inner inner,
                                              Parallel parallel, pace moves) {
  return run_trainer(causeway::make_trainer(std::move(model), std::move(t.env), trainer_options_of(t.in.s),
                                            std::move(inner), chosen_comm<Traits>{std::move(comm)}, std::move(parallel)),
                     t.in, moves);
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_RUN_TRAINER_HPP
