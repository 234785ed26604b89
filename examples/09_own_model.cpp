// SPDX-License-Identifier: Apache-2.0
// ctest: 200
// A model of one's own, trained by one process: which byte follows which, as a table of 256 x 256 scores.
// usage: 09_own_model [STEPS]
#include <causeway/train.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

using namespace causeway;

// [model]
class pairs_of_bytes {
 public:
  pairs_of_bytes() {
    scores_ = store_.add("scores", parameter_kind::matrix, 256, 256);  // all pieces first,
    store_.allocate();                                                 // then their memory, zeroed
  }

  parameter_store& parameters() { return store_; }
  std::uint64_t config_hash() const { return store_.layout_hash(); }
  struct host {
    thread_pool threads{1};
    thread_pool& pool() { return threads; }
  };
  host& backend() { return *host_; }

  result<double> forward_backward(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets, std::int64_t,
                                  float scale, std::uint64_t) {
    return pass(inputs, targets, [&](std::size_t row, std::size_t column, double p) {
      const double wanted = column == row_target_ ? 1 : 0;
      store_.gradient(scores_)[row * 256 + column] += scale * static_cast<float>(p - wanted);  // added, never set
    });
  }
  result<double> evaluate(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets, std::int64_t) {
    return pass(inputs, targets, [](std::size_t, std::size_t, double) {});
  }

 private:
  // The summed losses, -log p(target); visit(row, column, p(column)) for each.
  template <class F>
  double pass(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets, F visit) {
    double loss = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto row = static_cast<std::size_t>(inputs[i]);
      const float* scores = store_.value(scores_) + row * 256;
      row_target_ = static_cast<std::size_t>(targets[i]);
      double sum = 0;
      for (std::size_t c = 0; c < 256; ++c) sum += std::exp(double{scores[c]});
      for (std::size_t c = 0; c < 256; ++c) visit(row, c, std::exp(double{scores[c]}) / sum);
      loss += std::log(sum) - double{scores[row_target_]};
    }
    return loss;
  }

  parameter_store store_;
  std::size_t scores_ = 0;
  std::size_t row_target_ = 0;
  std::unique_ptr<host> host_ = std::make_unique<host>();  // a model is moved, a thread pool is not
};
static_assert(Model<pairs_of_bytes>);
// [model]

result<double> train(int steps) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += "the quick brown fox jumps over the lazy dog, ";
  data::byte_tokenizer bytes;
  CAUSEWAY_ASSIGN(auto batches, data::batcher::make(data::tokenize(bytes, text), {.context_length = 64}, 4));
  // No transport: this process is a run of one peer, and nothing is sent.
  auto trainer = make_trainer(pairs_of_bytes{}, {}, {.learning_rate = optim::constant{0.05F}}, comm::every_step<>{});
  CAUSEWAY_TRY(trainer.start());
  double loss = 0;
  for (int i = 0; i < steps; ++i) {
    CAUSEWAY_ASSIGN(const auto report, trainer.step(batches.next(0, 1)));
    loss = report.loss;
  }
  CAUSEWAY_TRY(trainer.finish());
  return loss;
}

int main(int argc, char** argv) {
  const auto loss = train(argc > 1 ? std::atoi(argv[1]) : 200);
  if (!loss) return std::puts(loss.error().text().c_str()), 1;
  std::printf("loss %.3f, log 256 is %.3f\n", *loss, std::log(256.0));
  return *loss < 2 ? 0 : 1;
}
