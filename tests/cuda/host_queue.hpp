// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_CUDA_HOST_QUEUE_HPP
#define CAUSEWAY_TESTS_CUDA_HOST_QUEUE_HPP

// A queue of the host: what a stream of the device would do with the same bodies, at once. Memory that it lends begins as
// NaN, and its products are plain loops that know nothing of kernels/, so that a model on it is a test of everything that
// lies above kernels' launches.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/cuda/bodies/activation_bodies.hpp>
#include <causeway/cuda/bodies/group.hpp>
#include <causeway/cuda/bodies/pack.hpp>
#include <causeway/cuda/device/matmul_plan.hpp>
#include <causeway/cuda/ops/compute.hpp>
#include <causeway/tensor/buffer.hpp>

#include "cuda/host_engine.hpp"
#include "cuda/host_warp.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace causeway_test {

class host_queue {
 public:
  using result = causeway::result<void>;

  explicit host_queue(std::shared_ptr<queue_report> report) : report_{std::move(report)} {}

  template <class Body>
  result elements(std::int64_t count, const Body& body) {
    const migrating_pages::work busy{report_->pages};
    if constexpr (causeway::cuda::PackBody<Body>) {
      causeway::cuda::run_here(body, count);
    } else {
      for (std::int64_t i = 0; i < count; ++i) body(i);
    }
    return {};
  }
  template <class Body>
  result rows(std::int64_t items, std::int64_t, const Body& body) {
    const migrating_pages::work busy{report_->pages};
    causeway::cuda::lone_group g;
    for (std::int64_t i = 0; i < items; ++i) {
      if (body.aligned()) {
        body.template run<causeway::cuda::pack_width>(g, i);
      } else {
        body.template run<1>(g, i);
      }
    }
    return {};
  }
  template <class Body>
  result groups(std::int64_t items, const Body& body) {
    return rows(items, 0, body);
  }
  template <class Body>
  result rows_with_memory(std::int64_t items, std::int64_t, const Body& body) {
    const migrating_pages::work busy{report_->pages};
    causeway::cuda::lone_group g;
    causeway::aligned_buffer<float> memory{body.working_bytes() / sizeof(float)};
    for (std::int64_t i = 0; i < items; ++i) {
      std::memset(memory.data(), 0xFF, body.working_bytes());
      if (body.aligned()) {
        body.template run<causeway::cuda::pack_width>(g, i, memory.data());
      } else {
        body.template run<1>(g, i, memory.data());
      }
    }
    return {};
  }
  template <int Blocks, class Body>
  result tiles(const Body& body) {
    const migrating_pages::work busy{report_->pages};
    const warp_report report = run_blocks(body);
    if (report.misplaced != 0) return causeway::fail(causeway::errc::invalid_argument, "host queue", "misplaced addresses");
    return {};
  }

  template <class T>
  class lease {
   public:
    explicit lease(std::size_t count) : memory_{count}, at_{memory_.data()} {
      std::memset(static_cast<void*>(at_), 0xFF, count * sizeof(T));
    }
    [[nodiscard]] T* data() const { return at_; }

   private:
    causeway::aligned_buffer<T> memory_;
    T* at_;
  };
  template <class T>
  causeway::result<lease<T>> take(std::size_t count) {
    return causeway::result<lease<T>>{lease<T>{count}};
  }

  result sort_pairs(const std::int32_t* keys, const std::int32_t* kept, std::int32_t* sorted_keys,
                    std::int32_t* sorted_kept, std::int64_t count, int bits) {
    const migrating_pages::work busy{report_->pages};
    std::vector<std::size_t> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), std::size_t{0});
    const std::int64_t mask = (std::int64_t{1} << bits) - 1;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return (keys[a] & mask) < (keys[b] & mask); });
    for (std::size_t i = 0; i < order.size(); ++i) sorted_keys[i] = keys[order[i]], sorted_kept[i] = kept[order[i]];
    return {};
  }

  template <class In, class Out>
  result multiply(const causeway::cuda::matmul_args<In, Out>& args) {
    const migrating_pages::work busy{report_->pages};
    using causeway::cuda::matmul_epilogue;
    causeway::cuda::matmul_key key{args.m, args.n, args.k, args.lda, args.ldb, args.ldc};
    key.transpose_a = args.transpose_a, key.transpose_b = args.transpose_b, key.accumulate = args.accumulate;
    key.in = causeway::dtype_of<In>, key.out = causeway::dtype_of<Out>, key.epilogue = args.epilogue;
    key.ld_matrix = args.ld_matrix;
    CAUSEWAY_TRY(causeway::cuda::validate(key));
    if (causeway::cuda::has_matrix(args.epilogue) && !report_->gelu_in_products) {
      return causeway::fail(causeway::errc::unsupported, "host queue", "no epilogue for GELU");
    }
    const Out* const addend = args.addend == nullptr ? args.c : args.addend;
    for (std::int64_t i = 0; i < args.m; ++i) {
      for (std::int64_t j = 0; j < args.n; ++j) {
        float sum = 0.0F;
        for (std::int64_t l = 0; l < args.k; ++l) {
          const In a = args.a[args.transpose_a ? l * args.lda + i : i * args.lda + l];
          const In b = args.b[args.transpose_b ? j * args.ldb + l : l * args.ldb + j];
          sum += static_cast<float>(a) * static_cast<float>(b);
        }
        if (args.accumulate) sum += static_cast<float>(addend[i * args.ldc + j]);
        if (causeway::cuda::has_vector(args.epilogue)) sum += static_cast<float>(args.vector[j]);
        if (args.epilogue == matmul_epilogue::gelu_gradient) {
          sum *= causeway::cuda::detail::gelu_slope(static_cast<float>(args.matrix[i * args.ld_matrix + j]));
        }
        if (args.epilogue == matmul_epilogue::bias_gelu) {
          args.matrix[i * args.ld_matrix + j] = Out(sum);
          sum *= causeway::cuda::detail::gelu_gate(sum);
        }
        args.c[i * args.ldc + j] = Out(sum);
      }
    }
    return {};
  }

  result enter() {
    if (report_->fail_at < 0 || report_->fail_at-- > 0) return {};
    return causeway::fail(causeway::errc::device_lost, "host queue", "told to fail");
  }
  result fetch(const void*, std::size_t bytes) {
    report_->fetched += bytes;
    return {};
  }
  result copy(void* to, const void* from, std::size_t bytes) {
    const migrating_pages::work busy{report_->pages};
    std::memcpy(to, from, bytes);
    return {};
  }
  result copy_in(void* to, const void* from, std::size_t bytes) {
    report_->in += bytes;
    return copy(to, from, bytes);
  }
  result copy_out(void* to, const void* from, std::size_t bytes) {
    report_->out += bytes;
    return copy(to, from, bytes);
  }
  /// Arrives at its end and not before, so that memory which is used again too early shows.
  result begin_copy_out(int lane, const void* from, std::size_t bytes) {
    lanes_[static_cast<std::size_t>(lane)].from = from;
    lanes_[static_cast<std::size_t>(lane)].arrived.resize(bytes);
    const auto under_way = std::count_if(lanes_.begin(), lanes_.end(), [](const auto& l) { return l.from != nullptr; });
    report_->most_under_way = std::max(report_->most_under_way, static_cast<std::size_t>(under_way));
    return {};
  }
  causeway::result<const std::byte*> end_copy_out(int lane) {
    auto& l = lanes_[static_cast<std::size_t>(lane)];
    CAUSEWAY_TRY(copy_out(l.arrived.data(), std::exchange(l.from, nullptr), l.arrived.size()));
    return static_cast<const std::byte*>(l.arrived.data());
  }
  result wait() {
    ++report_->waits;
    return {};
  }
  void* reserve(std::size_t bytes) {
    ++report_->reserved;
    return report_->migrates ? report_->pages.reserve(bytes) : causeway::allocate_aligned(bytes);
  }
  void release(void* piece) {
    --report_->reserved;
    if (report_->migrates) {
      report_->pages.release(piece);
    } else {
      std::free(piece);
    }
  }
  [[nodiscard]] static std::string describe() { return "cuda, on the host"; }

 private:
  struct lane_to_host {
    const void* from = nullptr;
    std::vector<std::byte> arrived;
  };

  std::shared_ptr<queue_report> report_;
  std::array<lane_to_host, 2> lanes_;
};

/// As engine_on_host, compiled here.
inline std::shared_ptr<causeway::cuda::engine> host_engine(std::shared_ptr<queue_report> report = {}) {
  if (report == nullptr) report = std::make_shared<queue_report>();
  return std::make_shared<causeway::cuda::compute<host_queue>>(host_queue{std::move(report)});
}

}  // namespace causeway_test

#endif  // CAUSEWAY_TESTS_CUDA_HOST_QUEUE_HPP
