"""The revision of an exercise: runs of files with one revision train in the same way to the bit."""

from __future__ import annotations

from clew_shared.cards import ExerciseCard

# When exercises got a revision, these texts of their files, by SHA-256, had all been revision 1. Earlier runs name only
# the hash. Nothing is added here any more.
_FIRST = {
    "activations": ("c96ff40450fecba1dde8b8d12b331ef570ab41724f1ea649fc75de4ac61ad311",),
    "anomaly": (
        "80a63aab5593287c2dd73d99012b9c1d406f9f7c4d216323800eaeab04e99b59",
        "489ff81b937b8646a8d508929d808994179d813bd3adcdecb8369d265938ce85",
        "1a3d34e0f0769fe0eaeedf7150ef1ab0d79d664660c14c02e2854ef110df1ad4",
        "efb8a0b5f745ee1614ab251ea64dc2b0fe264b8e2e2bf99a363ddde038824c64",
    ),
    "autoencoder": (
        "2b3dc655d24b71da2844c21c3597a508c4c732d2d394ab10a1f2474f888ab68d",
        "9ab788976c3b0a4a975e756baaa1b63106cf352c4e6780c350c1d41bbbb0373a",
        "4f36d754818556758f85e5e727ddccaea6732bccaa5923b97c7e6bef2293db66",
        "89df700cf43559de4b809e0720bf840f9710449c308e09825ec9cfe1b1cccdd5",
    ),
    "cnn": (
        "5f44cf9601913f801cfff4bbe442882f76729c44ea245388a73c75ee5a39292b",
        "9855427806de386ab6d942154e184662e7b4f08c40578b35ee151b99710d6d87",
        "1f938a9a9194666d29048b2ebf31eaa9aee25ab64d915cda72fae6545ced17fc",
        "998def4459fc07d43968f7932e5a86186b1a73d6d5ca1226577d648b8b4a894c",
        "79da9168fa7d0ee68287df6b84c703b3241c3138f02d3ea2ce75ce8ad3bae968",
    ),
    "gan": ("0692a2e10613fddd47fdad669abb7277f4d505b6706c01ddd74bc069a72d7980",),
    "imagenet-bench": (
        "604f554b09a1bdd35e188235509b265ffafe65dcccfaf4f07ee28fb246867a3e",
        "f560798efa4caec1f7f1d13601289b6454c51b9f88bee7d56aa52ec539ae9284",
    ),
    "inception-ps": (
        "16031193517f2a490fdf6714bdbf64a64de3faa772cdacdd0e5e41bee4ae4413",
        "6442086009fa48aa318959834f6e5f694d56ee716c4651fe0b673bf70458c10a",
    ),
    "linear-regression": (
        "ac7e6ff39c48b88336ee85ce8fa2087544fa2e3bce0bdb8db809b0c1a275ce87",
        "1229a4182c49ff7f67149ad4a346316a79e41174386a23225056d45b53408deb",
        "6829a36d2c3e5c0749b977228945048595921f4c96a53d2edf183e8837ab6a64",
    ),
    "minibatch": (
        "6753f97b5b1bcbcb27b3b93d594e7889e31cf396963b9a8c42e935d561c9940a",
        "b98ee0cfa52b308ad456789a2cc1f4c9401bf3fcfe71ac7e0709cc9ed45c7391",
        "51d144510845cdf29f8d49806a8ea28ece8881ab3d13a5987a6f81ccdcf1c44e",
    ),
    "model-parallel": (
        "91b87cbb0ae84585f2fbb0cced3ead5151dacbdeaf58b6c8067e08c65e894a44",
        "9b15eb7745c57f6307fd04aafe9a05e01c2926ead39845c4535b291461feb65d",
        "e20eafadfe07e4141e13c5aaa69480539e837446c0bbe6a8be3647b265b5437e",
    ),
    "ps-lab": (
        "fddfa771c238ad4e6ffcdfa895397b04479f80f95a61e8d986f2afe48e468c49",
        "02efe51e490f4927794fe7c1914419f633dbd686a509fc40a875391313b6ffde",
        "721e73d1947107a2248436224d1cf2a2816b1ce840f55e59e1f9ae534ee2be7b",
        "7412ee63b0c1c9b4ff74b71affe822c1f8e011ffd43195aedc6eec3a4d7ff8be",
    ),
    "ps-regression": (
        "dca5b2e01294af14ea7233aac99bcbbc4a493e8dfbf9286fc3a255da084a004d",
        "730b70f7bd895a1db36e4892764b7e00937e974ba3839bf816d29acf58803fba",
    ),
    "rnn": (
        "14e9010dc1a2b2b0d808b3c6551ec2fc8c11ba5c5b849d0b538378424db06b73",
        "eeb7735b8ba160faa5a31d641bb28da4716208392dc302d62c8f327f8a5297e8",
        "1d763a792e3aadd270497a83befe6f28cdf91358ab7858ddc4000258defb325c",
        "4449c500e31e9fd7269334f73e8679570f87a6a54b797076f9e34130bdeecd75",
    ),
    "softmax": (
        "b3e9f954cc82ecce1d5d59934332e3e48b735b8d9b2ea52f5ff70f76a6414e5c",
        "9c6ff7f94d8fe05e25988ca9fd593578c1426f67564db2658aa0d64a9fb803bc",
        "1a6da8237d29ed74f31923e68a54aca76ce06c8f5647c24f0d32996b526c30a2",
        "c21ce862ab3c6735a1a906bf1f88cb5f9960eed71ead03e33a0c600bbfae1ee7",
        "c6ee4a49d1f8516f8ac5571b378f5f8e9bc97cddd03769a737231a25acfd142a",
        "2093828c13e15a951a94f6180cb95f373f69764fee71e327839746d0381ed96e",
    ),
    "transfer": (
        "57d1d8f5a354656ae607b0acc00c99e36115a0374a03d35121d966bcb33640aa",
        "a4b50caadce5fbbf5b741816767185cd350800361d439c0a189712f0356cc39c",
        "9447b4360ffd3c46040897df2c1e55178b9160f362318b2518c8aec00460955f",
        "f3aca6e861d62f04e31b14e0d9a8a4512f28586f25ce9b0c5ecf39a0f644dd26",
        "199abf69de5a1a75ac07b3d6b4011cb3cc66f66f1fd5164e9694752387e335e5",
    ),
    "vae": (
        "c41c69599a4e8ad275dc675ad48409387477d8da45542f21ffe77193b76f5fbc",
        "fef81e70c133efc184005d6e046d8e43490e16a9ee75e9275eeba02152c5ff62",
        "f4dedd4814a5dbc8152e9f19a2320ff99a12b22a88a1f7f34d1dd46f1622a49e",
        "2348a0b3159a0f64045e0ab173a303610edd6dd35392310f7a108b0d48e3a080",
    ),
    "vectorize": (
        "7c67d8bcc9f2b084b6556ab7ffbe90a09c7604f964c14fc95b5132868e29ed64",
        "3a305b1e1bbeada9937985e837c63a30666a20749d6aae1865d93d8c623292e1",
        "fbc01bc7b42521c71d116bd110c17872b6b480e27e86e1f76fc5bb6015be518c",
    ),
}


def trains_alike(card: ExerciseCard, revision: int, source_hash: str) -> bool:
    """Whether a run with this ``revision`` and file of the exercise goes on with the file of ``card`` to the bit.

    The revision decides where both have one (0: none), otherwise the file: the same, or one that is known to train
    alike. An empty ``source_hash`` fits every file.
    """
    if revision and card.revision:
        return revision == card.revision
    if source_hash in ("", card.source_hash):
        return True
    return card.revision == 1 and source_hash in _FIRST.get(card.id, ())
