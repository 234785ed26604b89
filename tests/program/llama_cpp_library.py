# SPDX-License-Identifier: Apache-2.0
"""llama.cpp itself, through its C interface, from a package that brings it: `pip install llama-cpp-python` or `xllamacpp`.

Its structures of settings differ from version to version, and are given back to it as they came: room for the largest."""
import ctypes, importlib.util, pathlib


class Settings(ctypes.Structure):
    _fields_ = [("first", ctypes.c_uint32 * 4), ("rest", ctypes.c_ubyte * 1008)]


class Batch(ctypes.Structure):
    _fields_ = [("all", ctypes.c_ubyte * 256)]


def find_library():
    for package, pattern in (("llama_cpp", "lib/libllama.so"), ("xllamacpp", "xllamacpp*.so")):
        spec = importlib.util.find_spec(package)
        for folder in spec.submodule_search_locations if spec else ():
            for file in sorted(pathlib.Path(folder).glob(pattern)):
                return str(file)
    return None


class LlamaCpp:
    """A model of a GGUF file."""
    def __init__(self, file):
        self.lib = lib = ctypes.CDLL(find_library())
        pointer, text = ctypes.c_void_p, ctypes.c_char_p
        numbers = ctypes.POINTER(ctypes.c_int32)
        for name, result, arguments in (
            ("llama_backend_init", None, []), ("llama_model_default_params", Settings, []), ("llama_context_default_params", Settings, []),
            ("llama_model_load_from_file", pointer, [text, Settings]), ("llama_init_from_model", pointer, [pointer, Settings]),
            ("llama_model_get_vocab", pointer, [pointer]), ("llama_vocab_n_tokens", ctypes.c_int32, [pointer]),
            ("llama_vocab_eos", ctypes.c_int32, [pointer]),
            ("llama_tokenize", ctypes.c_int32, [pointer, text, ctypes.c_int32, numbers, ctypes.c_int32, ctypes.c_bool, ctypes.c_bool]),
            ("llama_token_to_piece", ctypes.c_int32, [pointer, ctypes.c_int32, pointer, ctypes.c_int32, ctypes.c_int32, ctypes.c_bool]),
            ("llama_batch_get_one", Batch, [numbers, ctypes.c_int32]), ("llama_decode", ctypes.c_int32, [pointer, Batch]),
            ("llama_get_logits_ith", ctypes.POINTER(ctypes.c_float), [pointer, ctypes.c_int32])):
            function = getattr(lib, name)
            function.restype, function.argtypes = result, arguments
        lib.llama_backend_init()
        self.model = lib.llama_model_load_from_file(file.encode(), lib.llama_model_default_params())
        if not self.model:
            raise ValueError(f"llama.cpp does not load {file}")
        self.vocabulary = lib.llama_model_get_vocab(self.model)

    def tokens(self, text):
        text = text.encode()
        room = (ctypes.c_int32 * (len(text) + 2))()
        count = self.lib.llama_tokenize(self.vocabulary, text, len(text), room, len(room), True, False)
        return list(room[:count])

    def text(self, tokens):
        pieces = b""
        for token in tokens:
            room = ctypes.create_string_buffer(600)
            size = self.lib.llama_token_to_piece(self.vocabulary, token, room, len(room), 0, True)
            pieces += room.raw[:size]
        return pieces.decode(errors="replace")

    def end_of_text(self):
        return self.lib.llama_vocab_eos(self.vocabulary)

    def logits(self, tokens):
        """After the last token, of a context that begins with the first."""
        settings = self.lib.llama_context_default_params()
        settings.first[0] = 0  # as many positions as the model has
        context = self.lib.llama_init_from_model(self.model, settings)
        room = (ctypes.c_int32 * len(tokens))(*tokens)
        if self.lib.llama_decode(context, self.lib.llama_batch_get_one(room, len(tokens))):
            raise ValueError("llama.cpp does not compute")
        return list(self.lib.llama_get_logits_ith(context, -1)[:self.lib.llama_vocab_n_tokens(self.vocabulary)])
