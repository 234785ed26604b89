// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_RUN_FAMILY_HPP
#define CAUSEWAY_EXAMPLES_RUN_FAMILY_HPP

// From settings to a trainer of one model family. Included by the file of that family alone: it instantiates much.

#include <causeway/comm/every_step.hpp>
#include <causeway/comm/periodic.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/muon.hpp>
#include <causeway/optim/nesterov.hpp>

#include <cstdio>
#include <string>
#include <utility>

#include "chosen_codec.hpp"
#include "generate.hpp"
#include "run_model.hpp"

namespace app {

namespace comm = causeway::comm;
namespace optim = causeway::optim;

template <class Model>
causeway::result<Model> make_model(const typename Model::options_type& options, const settings& s) {
  causeway::kernels::cpu_backend backend{s.net.threads};
  CAUSEWAY_ASSIGN(Model model, Model::create(options, std::move(backend)));
  model.initialize(s.run.seed);
  return model;
}

template <class Model>
void describe(Model& model, const session_input& in, std::size_t optimizer_bytes) {
  if (in.s.quiet) return;
  const auto estimate = model.memory_estimate(in.s.train.batch / in.s.train.micro_batches);
  std::printf("%s: %lld parameters, %s; %s\n", in.s.model.family.c_str(),
              static_cast<long long>(model.parameters().count()), in.s.model.precision.c_str(),
              model.backend().describe().c_str());
  std::printf(
      "memory of this peer: about %s (parameters and gradients %s, optimizers and outer state %s, activations %s)\n",
      human_bytes(static_cast<double>(estimate.total() + optimizer_bytes)).c_str(),
      human_bytes(static_cast<double>(estimate.parameters + estimate.gradients + estimate.low_precision)).c_str(),
      human_bytes(static_cast<double>(optimizer_bytes)).c_str(),
      human_bytes(
          static_cast<double>(estimate.activations + estimate.activation_gradients + estimate.logits + estimate.scratch))
          .c_str());
  std::printf("text: %s, %lld tokens to train on, %lld to validate; %u peers, %s\n",
              human_bytes(static_cast<double>(in.data.bytes)).c_str(), static_cast<long long>(in.data.tokens.train.size()),
              static_cast<long long>(in.data.tokens.validation.size()), in.s.net.peers, in.s.comm.policy.c_str());
  std::fflush(stdout);
}

template <class Trainer>
causeway::result<session_summary> run_trainer(Trainer trainer, session_input& in) {
  CAUSEWAY_ASSIGN(const session_summary summary, session<Trainer>{trainer, in}.run());
  if (trainer.context().self() != 0 || summary.interrupted) return summary;
  CAUSEWAY_ASSIGN(const std::string text, sample_text(trainer.model(), in.data.codec, in.s));
  causeway::io::posix_storage storage;
  CAUSEWAY_TRY(storage.write_atomic(in.folder + "/sample.txt", causeway::io::produce(text)));
  return summary;
}

template <class Model, class Inner, class Comm>
causeway::result<session_summary> run_composed(Model model, session_input& in, causeway::environment env, Inner inner,
                                               Comm policy) {
  const settings& s = in.s;
  causeway::trainer_options options;
  options.seed = s.run.seed;
  options.clip_norm = s.train.clip;
  options.learning_rate =
      optim::warmup_cosine{s.train.learning_rate, s.train.warmup, s.train.steps, s.train.final_fraction};
  return run_trainer(causeway::make_trainer(std::move(model), std::move(env), options, std::move(inner), std::move(policy),
                                            causeway::parallel::data_parallel{{.micro_batches = s.train.micro_batches}}),
                     in);
}

template <class Model, class Inner>
causeway::result<session_summary> run_with(Model model, session_input& in, causeway::environment env, Inner inner) {
  const settings& s = in.s;
  const auto length = static_cast<std::size_t>(model.parameters().length()) * sizeof(float);
  const bool local = s.comm.policy != "every_step";
  describe(model, in, length * (2 + (local ? 2 : 0)));
  const bool plain = s.comm.codec == "none";
  if (!local) {
    if (plain) return run_composed(std::move(model), in, std::move(env), std::move(inner), comm::every_step<>{});
    return run_composed(std::move(model), in, std::move(env), std::move(inner),
                        comm::every_step<chosen_codec>{chosen_codec{s.comm.codec}});
  }
  const bool averaging = s.comm.policy == "local_sgd";  // outer SGD(1): Nesterov without momentum
  const comm::periodic_options periodic{.local_steps = s.comm.local_steps,
                                        .outer_learning_rate = averaging ? 1.0F : s.comm.outer_learning_rate};
  const auto outer = [&] { return optim::nesterov{{.momentum = averaging ? 0.0F : s.comm.outer_momentum}}; };
  if (plain) {
    return run_composed(std::move(model), in, std::move(env), std::move(inner),
                        comm::periodic<optim::nesterov>{periodic, outer()});
  }
  return run_composed(std::move(model), in, std::move(env), std::move(inner),
                      comm::periodic<optim::nesterov, chosen_codec>{periodic, outer(), chosen_codec{s.comm.codec}});
}

template <class Model>
causeway::result<session_summary> run_family(const typename Model::options_type& options, session_input& in,
                                             causeway::environment env) {
  CAUSEWAY_ASSIGN(Model model, make_model<Model>(options, in.s));
  const settings& s = in.s;
  if (s.train.optimizer == "muon") {
    return run_with(std::move(model), in, std::move(env), optim::muon<>{});
  }
  return run_with(std::move(model), in, std::move(env), optim::adamw{{.weight_decay = s.train.weight_decay}});
}

template <class Model>
causeway::result<std::string> generate_family(const typename Model::options_type& options, const settings& s,
                                              text_codec& codec) {
  CAUSEWAY_ASSIGN(Model model, make_model<Model>(options, s));
  causeway::io::checkpoint_directory checkpoints{causeway::io::posix_storage{}, run_folder(s) + "/peer-0"};
  CAUSEWAY_ASSIGN(const auto loaded, checkpoints.load_newest());
  if (!loaded.note.empty()) std::fprintf(stderr, "%s\n", loaded.note.c_str());
  CAUSEWAY_TRY(causeway::restore_parameters(model.parameters(), loaded.file, causeway::io::cereal_archiver{}));
  return sample_text(model, codec, s);
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_RUN_FAMILY_HPP
